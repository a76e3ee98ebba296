"""The pictures in the documentation are what the code draws."""

from pathlib import Path

from tools import concept_pictures, top_pictures

IMAGES = Path(__file__).parents[2] / "docs" / "images"


def test_the_pictures_of_top_are_up_to_date() -> None:
    """`python -m tools.top_pictures` draws them anew; nothing in them is loaded from elsewhere."""
    for name, picture in top_pictures.draw().items():
        assert (IMAGES / name).read_text("utf-8") == picture
        assert "url(" not in picture.replace("url(#", "")


def test_the_pictures_of_concepts_are_up_to_date() -> None:
    """`python -m tools.concept_pictures` draws them anew; one shows what the solver decides."""
    for name, picture in concept_pictures.draw().items():
        assert (IMAGES / name).read_text("utf-8") == picture
