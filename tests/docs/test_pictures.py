"""The pictures in the documentation are what the code draws."""

from pathlib import Path

from tools.top_pictures import draw

IMAGES = Path(__file__).parents[2] / "docs" / "images"


def test_the_pictures_of_top_are_up_to_date() -> None:
    """`python -m tools.top_pictures` draws them anew; nothing in them is loaded from elsewhere."""
    for name, picture in draw().items():
        assert (IMAGES / name).read_text("utf-8") == picture
        assert "url(" not in picture.replace("url(#", "")
