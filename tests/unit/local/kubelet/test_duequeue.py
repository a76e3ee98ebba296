"""What is due when."""

import asyncio

from karpenter_local.kubelet.duequeue import DueQueue


def test_in_order() -> None:
    """What is due comes in the order of its time, then of its arrival, and once."""
    due_queue: DueQueue[str] = DueQueue()
    for key, due in (("c", 3.0), ("a", 1.0), ("b", 1.0), ("d", 9.0)):
        due_queue.put(key, due)

    assert due_queue.take_due(3.0) == ["a", "b", "c"]
    assert due_queue.take_due(3.0) == []
    assert len(due_queue) == 1


def test_a_new_plan_replaces_the_old_one() -> None:
    """Each subject has one entry: the last."""
    due_queue: DueQueue[str] = DueQueue()
    due_queue.put("a", 1.0)
    due_queue.put("a", 5.0)
    due_queue.put("b", 1.0)
    due_queue.drop("b")

    assert due_queue.take_due(4.0) == []
    assert due_queue.take_due(5.0) == ["a"]


async def test_steps_are_taken_when_due() -> None:
    """The agenda sleeps until the next step is due, and wakes for one that is put in before."""
    loop = asyncio.get_running_loop()
    due_queue: DueQueue[str] = DueQueue()
    taken: list[tuple[str, float]] = []

    async def step(key: str) -> None:
        taken.append((key, loop.time()))
        if key == "again" and len(taken) < 3:
            due_queue.put("again", loop.time() + 10)

    running = asyncio.create_task(due_queue.run(step))
    due_queue.put("late", 100.0)
    due_queue.put("gone", 50.0)
    await asyncio.sleep(1)
    due_queue.put("again", 5.0)
    due_queue.drop("gone")
    await asyncio.sleep(200)
    running.cancel()

    assert taken == [("again", 5.0), ("again", 15.0), ("again", 25.0), ("late", 100.0)]
