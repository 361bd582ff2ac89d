"""Values as JSON, and the sentence that tells a student how two of them differ."""

import json

import numpy as np
import pytest

from attnlearn.exercise.compare import agree, differ, settle
from attnlearn.exercise.values import LIMIT, decode, encode, encode_error

CLOSE = {"rtol": 1e-6, "atol": 1e-8}
EXACT = {"rtol": 0, "atol": 0}


def sentence(got, want, rule=CLOSE):
    """Through JSON, as between a kernel and the grader."""
    got, want = (json.loads(json.dumps(encode(value))) for value in (got, want))
    return differ(got, want, rule)


SAME = [
    True,
    3,
    10**30,
    -0.5,
    float("nan"),
    float("-inf"),
    1 + 2j,
    "text",
    None,
    [1, 2.0, "x"],
    {"q": [1, 2], "k": np.arange(3)},
    np.arange(6).reshape(2, 3),
    np.array([np.nan, np.inf, 1.0], np.float32),
    np.array([[True, False]]),
    np.array([1 + 1j]),
    np.zeros((0, 4)),
    np.float16(0.5),
    np.arange(12.0).reshape(3, 4).T[::2],
]


@pytest.mark.parametrize("value", SAME, ids=repr)
def test_a_value_equals_itself_after_the_journey(value):
    assert sentence(value, value, EXACT) is None


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6, dtype=">i4"),
        np.arange(4.0)[::-1],
        np.float64(2.5),
        np.array(3),
        np.arange(3) > 1,
    ],
)
def test_decode_gives_the_array_back(array):
    back = decode(encode(array))
    assert back.shape == np.shape(array)
    assert (back == array).all()


DIFFERENT = [
    (np.zeros((2, 3)), np.zeros((3, 2)), "shape (2, 3), expected (3, 2)"),
    (np.zeros(2), np.zeros(2, bool), "values are float64, expected bool"),
    (np.zeros(2), np.zeros(2, int), "values are float64, expected int64"),
    (np.array([0, 1.5]), np.array([0, 1.0]), "1 of 2 entries differ, first at [1]: got 1.5"),
    (np.array([np.nan, 1]), np.ones(2), "NaN in 1 of 2 entries, first at [0], where 1 is expected"),
    (np.ones(2), np.array([np.inf, 1]), "got 1, expected inf"),
    (np.array([-np.inf]), np.array([np.inf]), "got -inf, expected inf"),
    (0.17921, 0.17922, "got 0.17921, expected 0.17922"),
    (1.0000000001, 1.00001, "got 1, expected 1.00001"),
    (None, np.zeros(2), "returned None (is there a `return`?)"),
    (3.0, 3, "returned a float, expected an int"),
    ([1, 2], [1, 2, 3], "2 items, expected 3"),
    ([1, 5], [1, 2], "item 1: got 5, expected 2"),
    ({"a": 1}, {"b": 1}, "missing key 'b'"),
    ({"a": 1, "b": 1}, {"a": 1}, "unexpected key 'b'"),
    ({"a": 1}, {"a": 2}, "entry 'a': got 1, expected 2"),
    ("yes", "no", "got 'yes', expected 'no'"),
    (True, False, "got True, expected False"),
    ({1, 2}, [1, 2], "returned a set, expected a list"),
    (np.array(["a"]), np.zeros(1), "returned an array of str"),
]


@pytest.mark.parametrize(("got", "want", "words"), DIFFERENT, ids=[d[2] for d in DIFFERENT])
def test_one_sentence_says_how_two_values_differ(got, want, words):
    assert words in sentence(got, want)


def test_an_int_is_a_good_float_and_a_list_a_good_tuple():
    assert sentence(3, 3.0) is None
    assert sentence([1, 2], (1, 2)) is None


def test_tolerance_follows_the_coarser_dtype_unless_exact():
    third = np.full(3, 1 / 3)
    assert sentence(third.astype(np.float32), third) is None
    assert sentence(third.astype(np.float32), third, EXACT)
    assert sentence(third + 1e-5, third)


def test_half_precision_is_too_coarse_where_more_is_expected():
    third = np.full(3, 1 / 3)
    assert "(yours are float16)" in sentence(third.astype(np.float16), third)
    assert sentence(third.astype(np.float16), third.astype(np.float32))
    assert sentence(third, third.astype(np.float16)) is None
    assert sentence(third.astype(np.float16) + np.float16(1e-3), third.astype(np.float16)) is None


def test_the_width_of_a_dtype_does_not_count():
    assert sentence(np.arange(3, dtype=np.int32), np.arange(3)) is None
    assert sentence(np.ones(3, np.float32), np.ones(3)) is None


def test_at_most_is_a_limit():
    rule = {"at_most": 100}
    assert differ(encode(99), encode(50), rule) is None
    assert "at most 100 is allowed" in differ(encode(101), encode(50), rule)
    assert "expected a number" in differ(encode("fast"), encode(50), rule)
    assert differ(encode(float("nan")), encode(50), rule)
    assert agree(encode(2000), encode(101), rule)
    assert not agree(encode(2000), encode(99), rule)
    assert settle(encode(51.3), rule) == settle(encode(64), rule)


def test_the_same_error_under_a_limit_is_the_same_mistake_wherever_it_was_raised():
    rule, error = {"at_most": 100}, encode_error(ValueError("no heads"))
    assert agree(error | {"at": "line 3"}, error | {"at": "line 5"}, rule)
    assert not agree(error, encode_error(ValueError("no tokens")), rule)
    assert not agree(error, encode(50), rule)


@pytest.mark.parametrize(
    "value",
    [np.zeros(LIMIT // 8 + 1), "x" * (LIMIT + 1), [np.zeros(5000), np.zeros(5000)], [0] * 200_000],
    ids=["array", "text", "list of arrays", "long list"],
)
def test_an_oversize_value_is_sent_as_its_size_only(value):
    encoded = encode(value)
    assert encoded["big"] > LIMIT
    assert len(json.dumps(encoded)) < 200
    assert "too large to send" in differ(encoded, encode(value), CLOSE)


def test_values_that_have_no_json_form_are_named():
    loop = []
    loop.append(loop)
    json.dumps(encode(loop))
    assert encode(object()) == {"k": "other", "v": "object"}
    assert encode({1: 2}) == {"k": "other", "v": "dict"}
    assert encode(np.ma.masked_array([1], [True]))["v"] == "MaskedArray"


def test_tensors_are_read_without_importing_torch():
    torch = pytest.importorskip("torch")
    array = np.arange(6.0).reshape(2, 3)
    tensor = torch.tensor(array, requires_grad=True)
    assert sentence(tensor, array, EXACT) is None
    assert sentence(tensor.T, array.T) is None
    assert sentence(torch.ones(2, dtype=torch.bfloat16), np.ones(2, np.float32)) is None
    assert sentence(torch.tensor(2.5), 2.5) is None
    assert sentence(torch.ones(2, dtype=torch.bool), np.ones(2, bool)) is None
    assert encode(torch.ones(2, device="meta"))["k"] == "other"


def test_errors_are_equal_by_type_and_message():
    one, same = encode_error(ValueError("no")), encode_error(ValueError("no"))
    assert differ(one, same, CLOSE) is None
    assert differ(encode_error(KeyError("no")), one, CLOSE) == "raised KeyError: 'no'"
    assert differ(encode(1), one, CLOSE) == "should raise ValueError, but returned an int"
    assert differ(encode_error(NotImplementedError()), encode(1), CLOSE) == "not answered yet"
    assert differ(None, encode(1), CLOSE) == "no value arrived"


def test_an_error_keeps_no_address_and_survives_a_broken_message():
    class Broken(Exception):
        def __str__(self):
            raise RuntimeError

    assert "0x..." in encode_error(ValueError(f"bad {object()}"))["msg"]
    assert encode_error(Broken())["v"] == "Broken"
