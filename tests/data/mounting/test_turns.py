import threading

from runyard.data.fuse.server import LeaderLock, pass_leadership


def test_a_worker_that_waits_lets_a_new_one_take_the_next_request():
    added = []
    turns = LeaderLock(lambda: added.append(True), most_workers=2)
    turns.joined()
    turns.take()
    assert turns.is_ours
    pass_leadership()
    assert not turns.is_ours
    assert added == [True]
    pass_leadership()  # it is not ours any more
    assert added == [True]
    turns.take()
    assert turns.is_ours


def test_no_more_workers_are_made_than_allowed():
    added = []
    turns = LeaderLock(lambda: added.append(True), most_workers=1)
    turns.joined()
    turns.take()
    turns.pass_on()
    assert added == []


def test_threads_that_serve_no_mount_have_no_turn_to_pass():
    passed = threading.Thread(target=pass_leadership)
    passed.start()
    passed.join(5)
    assert not passed.is_alive()
