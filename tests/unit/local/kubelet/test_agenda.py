"""What is due when."""

import asyncio

from karpenter_local.kubelet.agenda import Agenda


def test_in_order() -> None:
    """What is due comes in the order of its time, then of its arrival, and once."""
    agenda: Agenda[str] = Agenda()
    for key, due in (("c", 3.0), ("a", 1.0), ("b", 1.0), ("d", 9.0)):
        agenda.put(key, due)

    assert agenda.take_due(3.0) == ["a", "b", "c"]
    assert agenda.take_due(3.0) == []
    assert len(agenda) == 1


def test_a_new_plan_replaces_the_old_one() -> None:
    """Each subject has one entry: the last."""
    agenda: Agenda[str] = Agenda()
    agenda.put("a", 1.0)
    agenda.put("a", 5.0)
    agenda.put("b", 1.0)
    agenda.drop("b")

    assert agenda.take_due(4.0) == []
    assert agenda.take_due(5.0) == ["a"]


async def test_steps_are_taken_when_due() -> None:
    """The agenda sleeps until the next step is due, and wakes for one that is put in before."""
    loop = asyncio.get_running_loop()
    agenda: Agenda[str] = Agenda()
    taken: list[tuple[str, float]] = []

    async def step(key: str) -> None:
        taken.append((key, loop.time()))
        if key == "again" and len(taken) < 3:
            agenda.put("again", loop.time() + 10)

    running = asyncio.create_task(agenda.run(step))
    agenda.put("late", 100.0)
    agenda.put("gone", 50.0)
    await asyncio.sleep(1)
    agenda.put("again", 5.0)
    agenda.drop("gone")
    await asyncio.sleep(200)
    running.cancel()

    assert taken == [("again", 5.0), ("again", 15.0), ("again", 25.0), ("late", 100.0)]
