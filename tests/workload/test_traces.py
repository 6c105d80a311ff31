"""Readers of published traces, on small files and on the real ones where they are present."""

from __future__ import annotations

import csv
import io
import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labcode import workload

AZURE = """TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:15:46.6805900,374,44
2023-11-16 18:15:50.9951690,396,109
2023-11-16 18:16:46.6805900,8,1
"""
MOONCAKE = [
    {"timestamp": 0, "input_length": 6758, "output_length": 500, "hash_ids": [0, 1]},
    {"timestamp": 3000, "input_length": 7, "output_length": 1, "hash_ids": []},
]
EPOCH = "TIMESTAMP,ContextTokens,GeneratedTokens\n1700000000,374,44\n"
BURSTGPT = """Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type
5,ChatGPT,472,18,490,Conversation log
45,ChatGPT,1087,230,1317,Conversation log
118,GPT-4,417,276,693,API log
"""
MOONCAKE_CSV = "timestamp,input_length,output_length\n"
PLAIN = "arrival_s,prompt_tokens,output_tokens\n0.5,10,3\n0.75,20,1\n"


def read(tmp_path, text, name="trace.csv", **options):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return workload.from_file(path, **options)


def read_bytes(tmp_path, text):
    path = tmp_path / "trace"
    path.write_bytes(text.encode())
    return workload.from_file(path)


def test_azure_counts_from_its_first_row(tmp_path):
    load = read(tmp_path, AZURE)
    assert load.arrival == pytest.approx([0, 4.314579, 60.0], abs=1e-9)
    assert load.prompt.tolist() == [374, 396, 8] and load.output.tolist() == [44, 109, 1]
    assert load.name == "trace"


def test_the_sample_is_the_head_of_azures_conversations():
    load = workload.from_file(workload.sample_trace())
    assert len(load) == 400 and load.arrival[1] == pytest.approx(4.314579)
    assert (load.prompt[:2].tolist(), load.output[:2].tolist()) == ([374, 396], [44, 109])


def test_burstgpt_with_its_later_columns_and_without(tmp_path):
    later = BURSTGPT.replace("Timestamp,", "Timestamp,Session ID,Elapsed time,").replace(",ChatGPT", ",,0.5,ChatGPT")
    for text in (BURSTGPT, later.replace(",GPT-4", ",,0.5,GPT-4")):
        load = read(tmp_path, text, "burst.csv")
        assert load.arrival.tolist() == [0, 40, 113] and load.name == "burst"
        assert load.prompt.tolist() == [472, 1087, 417] and load.output.tolist() == [18, 230, 276]


def test_a_failure_in_burstgpt_has_no_length_and_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"line 3: Response tokens = 0: a request that failed"):
        read(tmp_path, BURSTGPT.replace("1087,230", "1087,0"))


def test_mooncake_json_lines_and_csv_are_the_same(tmp_path):
    lines = read(tmp_path, "\n".join(map(json.dumps, MOONCAKE)) + "\n", "m.jsonl")
    frame = pd.DataFrame(MOONCAKE)
    table = read(tmp_path, frame.to_csv(index=False), "m.csv")
    for load in (lines, table):
        assert load.arrival.tolist() == [0, 3] and load.prompt.tolist() == [6758, 7]
        assert load.output.tolist() == [500, 1]


def test_plain_with_optional_columns_in_any_order(tmp_path):
    header = "tenant,deadline_s,max_tokens,output_tokens,prompt_tokens,arrival_s,other\n"
    text = header + "a,,4,3,10,0.5,x\nb,2.5,5,1,20,0.75,y\n"
    load = read(tmp_path, text)
    first, second = load.requests()
    assert (first.tenant, first.deadline, first.max_tokens, first.output) == ("a", None, 4, 3)
    assert (second.tenant, second.deadline, second.prompt) == ("b", 2.5, 20)


def test_byte_order_mark_windows_lines_and_blank_lines_are_read(tmp_path):
    load = read(tmp_path, "\ufeff" + PLAIN.replace("\n", "\r\n") + "\r\n\r\n")
    assert load.arrival.tolist() == [0.5, 0.75]


@pytest.mark.parametrize(
    ("times", "arrivals"),
    [
        (("0", "1", "5"), [0, 1, 5]),
        (("1700000000", "1700000001", "1700000005"), [0, 1, 5]),
        (("1700000000.25", "1700000000.5", "1.7000000015e9"), [0, 0.25, 1.25]),
        (("2023", "2024", "2026"), [0, 1, 3]),
    ],
)
def test_plain_numbers_are_seconds_and_never_years(tmp_path, times, arrivals):
    rows = "".join(f"{time},10,3\n" for time in times)
    assert read(tmp_path, "TIMESTAMP,ContextTokens,GeneratedTokens\n" + rows).arrival.tolist() == arrivals


@pytest.mark.parametrize("origin", [0, 86_400, 1_700_000_000])
def test_traces_do_not_depend_on_their_clock(tmp_path, origin):
    text = "arrival_s,prompt_tokens,output_tokens,deadline_s\n" + "".join(
        f"{origin + time},10,3,{deadline}\n" for time, deadline in ((0.5, origin + 2), (0.75, ""), (4.0, origin + 4.5))
    )
    load = read(tmp_path, text)
    first = load.origin + load.arrival[0]
    assert first == origin + 0.5
    np.testing.assert_array_equal(load.arrival - load.arrival[0], [0, 0.25, 3.5])
    np.testing.assert_array_equal(load.deadline - load.arrival, [1.5, np.nan, 0.5])
    lines = [{"timestamp": 1000 * (origin + t), "input_length": 9, "output_length": 1} for t in (0.5, 0.75, 4.0)]
    mooncake = read(tmp_path, "\n".join(map(json.dumps, lines)))
    np.testing.assert_array_equal(mooncake.arrival, load.arrival)


# Every character at which str.splitlines ends a line, but for the two line ends of files.
NO_LINE_ENDS = "\v\f\x1c\x1d\x1e\x85\u2028\u2029"


def test_lines_of_a_csv_end_at_line_ends_only(tmp_path):
    for inside in NO_LINE_ENDS:
        for end in ("\n", "\r\n"):
            text = end.join(["arrival_s,prompt_tokens,output_tokens,tenant", f"0.5,10,3,a{inside}b", "0.75,20,1,c", ""])
            assert read_bytes(tmp_path, text).tenant.tolist() == [f"a{inside}b", "c"], repr(inside)


def test_quotes_keep_what_is_inside(tmp_path):
    for inside in ("\n", "\r\n", "\r", ", ", '""', *NO_LINE_ENDS):
        text = f'arrival_s,prompt_tokens,output_tokens,tenant\n0.5,10,3,"a{inside}b"\n0.75,20,1,c\n'
        assert read_bytes(tmp_path, text).tenant.tolist() == [f"a{inside}b".replace('""', '"'), "c"], repr(inside)


def test_a_row_of_several_lines_is_known_by_its_first(tmp_path):
    text = 'arrival_s,prompt_tokens,output_tokens,tenant\n0.5,10,3,"a\n\nb"\n0.75,zero,1,"c\nd"\n'
    with pytest.raises(ValueError, match=r"line 5: prompt_tokens = zero"):
        read_bytes(tmp_path, text)


def test_lines_of_json_end_at_line_ends_only(tmp_path):
    for inside in ("\x85", "\u2028", "\u2029"):  # raw control characters below a space are no JSON
        lines = [json.dumps(row | {"note": f"a{inside}b"}, ensure_ascii=False) for row in MOONCAKE]
        assert read_bytes(tmp_path, "\ufeff" + "\r\n".join(lines)).arrival.tolist() == [0, 3]


ANYTHING = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
TEXT = st.text(st.sampled_from('a",\r\n\x85\u2028') | ANYTHING, max_size=6)


@given(st.lists(TEXT, min_size=1, max_size=4), st.sampled_from(["\n", "\r\n"]), st.booleans())
@settings(deadline=None, max_examples=60)
def test_any_text_survives_a_csv(tmp_path_factory, tenants, end, mark):
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator=end, quoting=csv.QUOTE_NONNUMERIC)
    writer.writerow(["arrival_s", "prompt_tokens", "output_tokens", "tenant"])
    writer.writerows([i, 10, 3, tenant] for i, tenant in enumerate(tenants))
    load = read_bytes(tmp_path_factory.mktemp("trace"), "\ufeff" * mark + text.getvalue())
    assert load.tenant.tolist() == [tenant.strip() for tenant in tenants]


CELL = st.sampled_from(["0", "7", "1e400", "-1", "2023-11-16 18:15:46", "nan", "", '"', "{}", "1" * 400]) | TEXT


@given(st.sampled_from([PLAIN, AZURE, MOONCAKE_CSV]), st.lists(st.lists(CELL, min_size=3, max_size=3), max_size=3))
@settings(deadline=None, max_examples=60)
def test_any_file_is_read_or_refused_by_name(tmp_path_factory, head, rows):
    header = head.splitlines()[0]
    text = "\n".join([header, *map(",".join, rows)])
    try:
        load = read_bytes(tmp_path_factory.mktemp("trace"), text)
    except ValueError as error:
        assert str(error).startswith(("trace", "arrival = "))
        return
    assert np.isfinite(load.arrival).all() and (np.diff(load.arrival) >= 0).all()


@given(data=st.data())
@settings(deadline=None, max_examples=30)
def test_what_is_written_is_read_back(tmp_path_factory, data):
    n = data.draw(st.integers(1, 20))
    lengths = st.lists(st.integers(1, 10**6), min_size=n, max_size=n)
    times = sorted(data.draw(st.lists(st.floats(0, 1e5), min_size=n, max_size=n)))
    load = workload.from_arrays(times, data.draw(lengths), data.draw(lengths))
    frame = load.to_frame().rename(
        columns={"arrival": "arrival_s", "prompt": "prompt_tokens", "output": "output_tokens"}
    )
    path = tmp_path_factory.mktemp("trace") / "plain.csv"
    frame.to_csv(path, index=False)
    back = workload.from_file(path)
    np.testing.assert_array_equal(back.arrival, load.arrival)
    np.testing.assert_array_equal(back.prompt, load.prompt)
    np.testing.assert_array_equal(back.output, load.output)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the file is empty"),
        ("  \n\n", "the file is empty"),
        ("arrival_s,prompt_tokens,output_tokens\n", "no requests"),
        ("a,b,c\n1,2,3\n", "unknown format.*azure: TIMESTAMP.*plain: arrival_s"),
        ("arrival_s,prompt_tokens\n1,2\n", "column output_tokens missing"),
        ("TIMESTAMP,ContextTokens\n1,2\n", "column GeneratedTokens missing"),
        ("arrival_s,arrival_s,output_tokens\n1,2,3\n", "arrival_s appears twice"),
        (PLAIN + "1,2\n", "line 4: 2 fields, the header has 3"),
        (PLAIN + "1,2,3,4\n", "line 4: 4 fields"),
        (PLAIN + "1,x,3\n", "line 4: prompt_tokens = x: a number"),
        (PLAIN + "1,,3\n", "line 4: prompt_tokens = : a number"),
        (PLAIN + "1,nan,3\n", "line 4: prompt_tokens = nan"),
        (PLAIN + "1,2.5,3\n", r"line 4: prompt_tokens = 2\.5: a whole number"),
        (PLAIN + "1,0,3\n", "line 4: prompt_tokens = 0: must be at least 1"),
        (PLAIN + "\n1,2,0\n", "line 5: output_tokens = 0"),
        (PLAIN + "0.1,2,3\n", r"line 4: arrival_s = 0\.1: earlier"),
        (PLAIN + "inf,2,3\n", "line 4: arrival_s = inf"),
        ("arrival_s,prompt_tokens,output_tokens\n-1,2,3\n", "line 2: arrival_s = -1: must not be negative"),
        (AZURE + "yesterday,2,3\n", "line 5: TIMESTAMP = yesterday: a date"),
        (AZURE + "2023-11-15 00:00:00,2,3\n", "line 5: TIMESTAMP = 2023-11-15 00:00:00: earlier"),
        (AZURE + "NaT,2,3\n", "line 5: TIMESTAMP = NaT"),
        (AZURE + "1700000000,2,3\n", "line 5: TIMESTAMP = 1700000000: a date and time is needed, as in the first row"),
        (EPOCH + "2023-11-16 18:15:46,2,3\n", "line 3: TIMESTAMP = 2023-11-16 18:15:46: a number of seconds is needed"),
        (EPOCH + "1,2,3\n", "line 3: TIMESTAMP = 1: earlier"),
        (EPOCH + "nan,2,3\n", "line 3: TIMESTAMP = nan: a finite time"),
        (EPOCH.replace("1700000000", "1700000000000"), "TIMESTAMP = 1700000000000.*subtract the start first"),
        (PLAIN + '2,"3,4\n5,6,7\n', "line 4: unexpected end of data"),
        (PLAIN.replace("\n", "\r"), "line 1: a carriage return alone, outside quotes"),
        (PLAIN + "1.7e12,3,4\n", "arrival = 1700000000000.0.*subtract the start first"),
        ('{"timestamp": 0, "input_length": 1}\n', "line 1: output_length missing"),
        ('{"timestamp": 0, "input_length": 1, "output_length": null}\n', "line 1: output_length = None"),
        ('{"timestamp": 0}{\n', "line 1: not JSON"),
        ('{"timestamp": 0, "input_length": 1, "output_length": 1}\n[1]\n', "line 2: a JSON object is needed"),
    ],
)
def test_bad_files_are_named_by_line(tmp_path, text, said):
    with pytest.raises(ValueError, match=said):
        read(tmp_path, text)


def test_a_binary_file_is_not_a_trace(tmp_path):
    path = tmp_path / "trace.csv"
    path.write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(ValueError, match="not text in UTF-8"):
        workload.from_file(path)


def test_format_can_be_asked_for(tmp_path):
    with pytest.raises(ValueError, match="column TIMESTAMP"):
        read(tmp_path, PLAIN, format="azure")
    with pytest.raises(ValueError, match="known are azure, burstgpt, mooncake, plain"):
        read(tmp_path, PLAIN, format="vllm")
    with pytest.raises(ValueError, match="JSON lines"):
        read(tmp_path, json.dumps(MOONCAKE[0]), format="azure")


def test_a_missing_file_is_said_to_be_missing(tmp_path):
    with pytest.raises(FileNotFoundError):
        workload.from_file(tmp_path / "none.csv")


def test_azure_conversation_trace(shared_data):
    load = workload.from_file(shared_data / "AzureLLMInferenceTrace_conv_first5000.csv")
    assert len(load) == 5000
    assert (load.arrival[0], load.prompt[0], load.output[0]) == (0, 374, 44)
    assert load.arrival[1] == pytest.approx(4.314579)


def test_azure_code_trace_is_bursty(shared_data):
    load = workload.from_file(shared_data / "AzureLLMInferenceTrace_code_first5000.csv")
    gaps = np.diff(load.arrival)
    assert len(load) == 5000 and gaps.std() / gaps.mean() > 5


def test_mooncake_trace_in_both_forms(shared_data, tmp_path):
    path = shared_data / "Mooncake_conversation_first5000.csv"
    table = workload.from_file(path)
    assert len(table) == 5000 and (table.prompt[0], table.output[0]) == (6758, 500)
    assert set(np.round(np.diff(table.arrival), 3)) >= {0.0, 3.0}
    frame = pd.read_csv(path)
    frame["hash_ids"] = frame["hash_ids"].map(json.loads)
    frame.to_json(tmp_path / "m.jsonl", orient="records", lines=True)
    lines = workload.from_file(tmp_path / "m.jsonl")
    np.testing.assert_array_equal(lines.arrival, table.arrival)
    np.testing.assert_array_equal(lines.output, table.output)


def test_vidur_traces_differ_in_their_rate_only(shared_data):
    slow = workload.from_file(shared_data / "vidur_trace_uniform_qps2.csv")
    fast = workload.from_file(shared_data / "vidur_trace_uniform_qps8.csv")
    np.testing.assert_array_equal(slow.prompt, fast.prompt)
    np.testing.assert_allclose(slow.at_rate(fast.rate).arrival, fast.arrival, rtol=1e-3)


def test_mooncake_block_hashes_reach_the_workload_from_both_forms(tmp_path):
    rows = [(0, 1100, 5, [0, 1, 2]), (3000, 600, 7, [0, 3]), (3000, 100, 2, [])]
    lines = [
        json.dumps(dict(zip(("timestamp", "input_length", "output_length", "hash_ids"), row, strict=True)))
        for row in rows
    ]
    assert read(tmp_path, "\n".join(lines)).prefix.tolist() == [(0, 1, 2), (0, 3), ()]
    table = "timestamp,input_length,output_length,hash_ids\n" + "\n".join(f'{t},{i},{o},"{h}"' for t, i, o, h in rows)
    assert read(tmp_path, table).prefix.tolist() == [(0, 1, 2), (0, 3), ()]
    assert (
        read(tmp_path, table.replace(',"[0, 1, 2]"', ",").replace(',"[0, 3]"', ",").replace(',"[]"', ",")).prefix[0]
        == ()
    )
    with pytest.raises(ValueError, match=r"line 3: hash_ids = \[0, -3\]"):
        read(tmp_path, table.replace("[0, 3]", "[0, -3]"))
    with pytest.raises(ValueError, match=r"line 2: hash_ids = 7"):
        read(tmp_path, table.replace('"[0, 1, 2]"', "7"))


def test_the_mooncake_trace_has_a_hash_for_every_512_tokens(shared_data):
    load = workload.from_file(shared_data / "Mooncake_conversation_first5000.csv")
    assert [len(hashes) for hashes in load.prefix] == [-(-int(prompt) // 512) for prompt in load.prompt]
