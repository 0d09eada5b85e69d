import threading

from runyard.mounting.turns import Turns, pass_turn


def test_a_worker_that_waits_lets_a_new_one_take_the_next_request():
    added = []
    turns = Turns(lambda: added.append(True), most_workers=2)
    turns.joined()
    turns.take()
    assert turns.is_ours
    pass_turn()
    assert not turns.is_ours
    assert added == [True]
    pass_turn()  # it is not ours any more
    assert added == [True]
    turns.take()
    assert turns.is_ours


def test_no_more_workers_are_made_than_allowed():
    added = []
    turns = Turns(lambda: added.append(True), most_workers=1)
    turns.joined()
    turns.take()
    turns.pass_on()
    assert added == []


def test_threads_that_serve_no_mount_have_no_turn_to_pass():
    passed = threading.Thread(target=pass_turn)
    passed.start()
    passed.join(5)
    assert not passed.is_alive()
