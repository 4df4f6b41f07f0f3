"""Arrays that grow at their end: nobody sees anybody else's rows, and little is copied."""

from __future__ import annotations

import numpy as np

from epoxy.neighbors import store
from epoxy.room import followed, roomy


def test_rows_that_follow_are_put_into_the_same_memory():
    first = roomy(3, 2, np.float64)
    first[:] = 1

    second = followed(first, np.full((2, 2), 2.0))
    third = followed(second, np.full((1, 2), 3.0))

    assert third[:, 0].tolist() == [1, 1, 1, 2, 2, 3]
    assert first[:, 0].tolist() == [1, 1, 1]
    assert np.shares_memory(first, third)


def test_who_goes_another_way_from_the_same_rows_gets_memory_of_its_own():
    first = followed(np.zeros((4, 1), np.int32), np.ones((1, 1)))

    one, other = followed(first, np.array([[2]])), followed(first, np.array([[3]]))

    assert one.ravel().tolist() == [0, 0, 0, 0, 1, 2]
    assert other.ravel().tolist() == [0, 0, 0, 0, 1, 3]
    assert one.dtype == other.dtype == np.int32
    assert not np.shares_memory(one, other)


def test_an_array_is_copied_seldom():
    grown, copies = np.zeros((5000, 2)), 0
    for number in range(3000):
        before = grown
        grown = followed(grown, np.full((1, 2), number))
        copies += not np.shares_memory(before, grown)

    assert copies <= 3
    assert grown[5000:, 0].tolist() == list(range(3000))


def test_a_part_of_an_array_is_not_taken_for_all_of_it():
    whole = followed(np.arange(6.0).reshape(3, 2), np.zeros((1, 2)))

    assert followed(whole[:2], np.ones((1, 2)))[2].tolist() == [1, 1]
    assert followed(whole[:, :1], np.ones((1, 1))).ravel().tolist() == [0, 2, 4, 0, 1]
    assert whole[2].tolist() == [4, 5]


def test_tables_are_read_with_room_where_they_are_to_grow(tmp_path):
    path = tmp_path / "graph.npz"
    store.save(path, {"table": np.arange(6, dtype=np.int16).reshape(3, 2), "row": np.arange(3)})

    found = store.load(path, None, room=True)

    assert found["table"].tolist() == [[0, 1], [2, 3], [4, 5]]
    assert found["row"].tolist() == [0, 1, 2]
    assert np.shares_memory(found["table"], followed(found["table"], np.zeros((1, 2))))
