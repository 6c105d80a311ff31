"""The labs of chapter 4 and what they must show."""

from labcode.course.labs import find


def test_profile_lab():
    lab = find("ch04-profile")
    assert "batch 34, 1,700 inputs/s" in lab.run(fixed=3.0, per_input=0.5, slo=20.0).headline
    assert "no batch meets" in lab.run(fixed=12.0, per_input=0.5, slo=10.0).headline  # the failure within reach


def test_aimd_lab_shows_what_headroom_buys():
    lab = find("ch04-aimd")
    lecture = lab.run(additive=1, backoff=0.9, target=20.0, factor=2.0)
    assert "Late: 20 % steady, 35 % in the slow phase" in lecture.headline
    late = [lab.run(target=target).panels[1].series[0].y for target in (16.0, 18.0, 20.0)]
    assert sum(late[0]) < sum(late[1]) < sum(late[2])


def test_wait_lab_pays_for_one_model_only():
    lab = find("ch04-wait")
    models = ("high fixed cost", "low fixed cost")
    high, low = (lab.run(model=m, load=0.8, wait=2.0).panels[0].series[0].y for m in models)
    assert high[0] - high[3] > 0.2
    assert low[0] - low[3] < 0.1


def test_decode_lab_has_34_at_8192():
    assert "largest that holds it is 34" in find("ch04-decode").run(max_bs=64, tpot=20.0, context=8192).headline


def test_request_lab_has_late_requests_without_a_late_batch():
    lab = find("ch04-request")
    assert "17.4 % of the requests are late; the longest batch takes 20.0 ms" in lab.run(load=0.8).headline
    even = lab.run(load=0.8, cap=14, arrivals="evenly spaced")
    assert " 0.0 % of the requests are late" in even.headline  # the half-SLO rule, for those it is made for
    assert lab.run(load=0.8, cap=14).panel("late").curve("this cap").at(0.8) > 0.4
