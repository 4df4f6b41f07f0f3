from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epoxy.errors import AlignmentError, LabelError, ParameterError, UnknownName, VoteError
from epoxy.label_models import LabelModel
from epoxy.sequences import Chain, TaskGraph, Tasks
from epoxy.sequences.inference import marginal
from epoxy.sequences.tasks import joint_of_pairs
from epoxy.votes import Split, Votes

CYCLE = [(0, 1), (1, 2), (2, 3), (3, 0)]


def random_graph(rng: np.random.Generator, n_tasks: int, share: float) -> TaskGraph:
    edges = [pair for pair in itertools.combinations(range(n_tasks), 2) if rng.random() < share]
    return TaskGraph(n_tasks, edges)


def random_joint(rng: np.random.Generator, graph: TaskGraph, n_classes: int) -> np.ndarray:
    """The paper's f_G over labels: random single and pair potentials, normalised by enumeration."""
    joint = np.ones((n_classes,) * graph.n_tasks)
    for tasks in [*((task,) for task in range(graph.n_tasks)), *graph.edges]:
        potential = np.exp(rng.normal(0, 1, (n_classes,) * len(tasks)))
        shape = [n_classes if task in tasks else 1 for task in range(graph.n_tasks)]
        joint = joint * potential.reshape(shape)
    return joint / joint.sum()


def items(rng: np.random.Generator, joint: np.ndarray, n_items: int) -> tuple[Votes, np.ndarray]:
    """Items drawn from a joint balance, three sources of accuracy 0.8 on every task."""
    n_classes, n_tasks = joint.shape[0], joint.ndim
    code = rng.choice(joint.size, n_items, p=joint.ravel())
    label = np.stack(np.unravel_index(code, joint.shape), axis=1).ravel()
    wrong = (label[:, None] + rng.integers(1, n_classes, (len(label), 3))) % n_classes
    matrix = np.where(rng.random((len(label), 3)) < 0.8, label[:, None], wrong)
    matrix[rng.random(matrix.shape) < 0.2] = -1
    assert len(label) == n_items * n_tasks
    return Votes(matrix, classes=list("abc"[:n_classes])), label


def by_enumeration(model: Tasks, joint: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, float]:
    """Posterior of every task that has a row, and the largest joint probability, term by term."""
    posterior = joint.copy()
    for labels in itertools.product(range(joint.shape[0]), repeat=joint.ndim):
        for task, row in enumerate(rows):
            table = model.by_place_[0, np.arange(len(row)), row + 1, labels[task]]
            posterior[labels] *= np.exp(table.sum())
    posterior /= posterior.sum()
    singles = np.stack([marginal(posterior, (task,)) for task in range(len(rows))])
    return singles, posterior


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    n_tasks=st.integers(2, 5),
    n_classes=st.integers(2, 3),
)
def test_marginals_equal_enumeration_on_random_graphs(seed, n_tasks, n_classes):
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, n_tasks, 0.6)
    joint = random_joint(rng, graph, n_classes)
    votes, _ = items(rng, joint, 300)
    votes = votes.rows(slice(0, len(votes) - 1))  # the last item lacks its last task
    model = Tasks(graph, class_balance=joint.ravel()).fit(votes)

    found = model.predict_proba(votes)

    for item in (0, 1, 299):
        rows = slice(item * n_tasks, (item + 1) * n_tasks)
        expected, _ = by_enumeration(model, joint, votes.matrix[rows])
        assert found[rows] == pytest.approx(expected, abs=1e-9)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000), n_tasks=st.integers(2, 5))
def test_the_joint_labelling_is_the_most_likely_one(seed, n_tasks):
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, n_tasks, 0.6)
    joint = random_joint(rng, graph, 2)
    votes, _ = items(rng, joint, 300)
    model = Tasks(graph, class_balance=joint.ravel()).fit(votes)

    found = graph.fold(model.predict_joint(votes))

    for item in (0, 1, 39):
        rows = slice(item * n_tasks, (item + 1) * n_tasks)
        _, posterior = by_enumeration(model, joint, votes.matrix[rows])
        chosen = tuple(model.classes_.index(name) for name in found[item])
        assert posterior[chosen] == pytest.approx(posterior.max(), rel=1e-9)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000), n_tasks=st.integers(2, 5), n_classes=st.integers(2, 3))
def test_pairs_alone_bring_back_the_papers_distribution(seed, n_tasks, n_classes):
    graph = random_graph(np.random.default_rng(seed), n_tasks, 0.6)
    joint = random_joint(np.random.default_rng(seed), graph, n_classes)
    pairs = np.array([marginal(joint, edge) for edge in graph.edges])
    singles = np.stack([marginal(joint, (task,)) for task in range(n_tasks)])

    found = joint_of_pairs(graph, pairs.reshape(-1, n_classes, n_classes), singles)

    assert found == pytest.approx(joint, abs=1e-7)


def test_a_chain_graph_equals_a_chain():
    rng = np.random.default_rng(1)
    graph = TaskGraph.chain(4)
    pairs = np.array([[0.34, 0.06], [0.06, 0.54]])
    votes, _ = items(rng, random_joint(rng, graph, 2), 500)

    ours = Tasks(graph, class_balance=[pairs] * 3).fit(votes)

    chain = Chain(4, class_balance=pairs).fit(votes)
    assert ours.predict_proba(votes) == pytest.approx(chain.predict_proba(votes), abs=1e-9)
    assert ours.accuracy_ == pytest.approx(chain.accuracy_)


def test_pairs_are_learned_from_votes_alone_and_help():
    rng = np.random.default_rng(2)
    graph = TaskGraph(4, CYCLE)
    joint = np.ones((2,) * 4)
    for a, b in graph.edges:
        shape = [2 if task in (a, b) else 1 for task in range(4)]
        joint = joint * np.array([[4.0, 1.0], [1.0, 4.0]]).reshape(shape)
    joint /= joint.sum()
    votes, label = items(rng, joint, 3000)

    related = Tasks(graph).fit(votes)
    apart = Tasks(TaskGraph(4, [])).fit(votes)

    # 3,000 items: a learned share has standard error 0.01, unmixing by θ² = 0.36 makes it 0.025
    true_pairs = np.stack([marginal(joint, edge) for edge in graph.edges])
    found = np.stack([marginal(related.prior_, edge) for edge in graph.edges])
    assert found == pytest.approx(true_pairs, abs=0.08)
    right = [
        (each.predict_proba(votes).argmax(axis=1) == label).mean() for each in (related, apart)
    ]
    assert right[0] > right[1] + 0.02


def test_tasks_is_a_label_model_and_reads_shares_from_labels():
    rng = np.random.default_rng(3)
    graph = TaskGraph(3, [(0, 1), (0, 2)])
    votes, label = items(rng, random_joint(rng, graph, 2), 400)

    model = Tasks(graph, class_balance=Split(votes, y=label))

    assert isinstance(model, LabelModel)
    model.fit(votes)
    counted = np.bincount(label[0::3] * 2 + label[1::3], minlength=4).reshape(2, 2)
    found = marginal(model.prior_, (0, 1))
    assert found == pytest.approx((counted + 1) / (counted.sum() + 4), abs=0.01)


def test_votes_in_one_row_per_item_are_unfolded_by_attachment():
    graph = TaskGraph(2, [(0, 1)], attach={"a": 0, "b": 1, "c": 1})
    wide = Votes([[0, 1, -1], [1, 0, 0]], sources=["a", "b", "c"])

    votes = graph.unfold(wide)

    assert votes.matrix.tolist() == [[0, -1, -1], [-1, 1, -1], [1, -1, -1], [-1, 0, 0]]
    assert graph.fold(votes.matrix).shape == (2, 2, 3)


def test_sources_attached_to_single_tasks_are_solved_through_neighbours():
    rng = np.random.default_rng(5)
    graph = TaskGraph.chain(3)
    attach = {f"s{i}": i // 2 for i in range(6)}
    graph = TaskGraph(3, graph.edges, attach=attach)
    label = np.zeros((20_000, 3), dtype=int)
    label[:, 0] = rng.integers(0, 2, 20_000)
    for task in (1, 2):
        label[:, task] = np.where(
            rng.random(20_000) < 0.85, label[:, task - 1], 1 - label[:, task - 1]
        )
    accuracy = np.array([0.9, 0.7, 0.8, 0.75, 0.85, 0.7])
    of_source = label[:, [0, 0, 1, 1, 2, 2]]
    wide = np.where(rng.random((20_000, 6)) < accuracy, of_source, 1 - of_source)
    votes = graph.unfold(Votes(wide, sources=list(attach)))

    model = Tasks(graph).fit(votes)

    # two sources per task: only partners on neighbouring tasks identify them; √(1/20,000) ≈ 0.007
    # over denominators of about 0.2
    assert model.accuracy_ == pytest.approx(accuracy, abs=0.05)


WIDE = Votes([[0, 1]], sources=["a", "b"])
FEW = Votes(np.zeros((48, 3), dtype=int), classes=["a", "b"])
IN_FOURS = Votes(np.zeros((6, 3), dtype=int), sequences=[0] * 4 + [1] * 2)


def fitted(graph=None, votes=FEW, **options):
    return Tasks(TaskGraph.chain(3) if graph is None else graph, **options).fit(votes)


@pytest.mark.parametrize(
    ("make", "error", "named"),
    [
        (lambda: TaskGraph(0, []), ParameterError, "n_tasks=0"),
        (lambda: TaskGraph(2, [(0, 2)]), ParameterError, "(0, 2)"),
        (lambda: TaskGraph(2, [(1, 1)]), ParameterError, "(1, 1)"),
        (lambda: TaskGraph(2, [], attach={"a": 5}), ParameterError, "'a'"),
        (lambda: TaskGraph(2, [], attach={"a": 0}).unfold(WIDE), VoteError, "'b'"),
        (lambda: TaskGraph(2, []).fold(np.zeros((5, 2))), AlignmentError, "5 rows"),
        (lambda: fitted(TaskGraph.chain(24)), ParameterError, "2^24"),
        (lambda: fitted(votes=IN_FOURS), AlignmentError, "4 rows"),
        (lambda: fitted(class_balance=np.full(4, 0.25)), ParameterError, "2^3 = 8"),
        (lambda: fitted(class_balance=[0.9, 0.3]), ParameterError, "1.2"),
        (lambda: fitted(class_balance="lern"), UnknownName, "'lern'"),
        (lambda: fitted(class_balance=Split(FEW, y=[0, -1, 0] * 16)), LabelError, "every task"),
        (lambda: fitted(solve="em"), UnknownName, "'em'"),
        (lambda: fitted("chain"), ParameterError, "str"),
    ],
)
def test_what_makes_no_sense_is_refused(make, error, named):
    with pytest.raises(error) as caught:
        make()

    assert named in str(caught.value)


def test_pair_tables_may_be_given_per_edge():
    rng = np.random.default_rng(4)
    graph = TaskGraph(3, [(0, 1), (1, 2)])
    joint = random_joint(rng, graph, 2)
    votes, _ = items(rng, joint, 100)
    pairs = np.stack([marginal(joint, edge) for edge in graph.edges])

    by_pairs, by_joint = (
        Tasks(graph, class_balance=each).fit(votes).predict_proba(votes)
        for each in (pairs, joint.ravel())
    )

    assert by_pairs == pytest.approx(by_joint, abs=1e-9)
