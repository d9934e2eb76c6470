"""One literal wide, tall and shifted grid for every primitive; and proof that they bite."""

import ast
import importlib
import inspect
from types import ModuleType

import numpy as np
import pytest

from hitherto.mask import Table, bind, evaluate, parse
from hitherto.mask.random import drawn_blocks

meaning = importlib.import_module("hitherto.mask.evaluate")  # the name is also the function's

# mask: (first query, rows) wide; tall; shifted. Rows are queries, columns keys from 0.
GOLDEN = {
    "Everything()": (
        (4, "####### ####### #######"),
        (0, "### ### ### ### ### ###"),
        (1, "##### #####"),
    ),
    "Nothing()": (
        (4, "....... ....... ......."),
        (0, "... ... ... ... ... ..."),
        (1, "..... ....."),
    ),
    "Causal()": (
        (4, "#####.. ######. #######"),
        (0, "#.. ##. ### ### ### ###"),
        (1, "##... ###.."),
    ),
    "Window(2)": (
        (4, "...##.. ....##. .....##"),
        (0, "#.. ##. .## ..# ... ..."),
        (1, "##... .##.."),
    ),
    "Band(1, 2)": (
        (4, "...#### ....### .....##"),
        (0, "### ### .## ..# ... ..."),
        (1, "####. .####"),
    ),
    "Band(-1, 3)": (
        (4, ".....## ......# ......."),
        (0, ".## ..# ... ... ... ..."),
        (1, "..### ...##"),
    ),
    "Band(None, -1)": (
        (4, "####... #####.. ######."),
        (0, "... #.. ##. ### ### ###"),
        (1, "#.... ##..."),
    ),
    "Band(2, None)": (
        (4, "..##### ...#### ....###"),
        (0, "### ### ### .## ..# ..."),
        (1, "##### #####"),
    ),
    "Prefix(2)": (
        (4, "##..... ##..... ##....."),
        (0, "##. ##. ##. ##. ##. ##."),
        (1, "##... ##..."),
    ),
    "Chunks(3)": (
        (4, "...###. ...###. ......#"),
        (0, "### ### ### ... ... ..."),
        (1, "###.. ###.."),
    ),
    "Chunks(2, start=1)": (
        (4, "...##.. .....## .....##"),
        (0, "#.. .## .## ... ... ..."),
        (1, ".##.. .##.."),
    ),
    "BlockCausal(2)": (
        (4, "######. ######. #######"),
        (0, "##. ##. ### ### ### ###"),
        (1, "##... ####."),
    ),
    "Segments([0, 0, -1, 1, 1, 0, -1])": (
        (4, "...##.. ##...#. ......."),
        (0, "##. ##. ... ... ... ##."),
        (1, "##... ....."),
    ),
    "Segments([1, 0, 0, -1, 1, 2, 0], k_ids=[0, 2, 1, -1, 0, 0, 1])": (
        (4, "..#...# .#..... #...##."),
        (0, "..# #.. #.. ... ..# .#."),
        (1, "#...# #...#"),
    ),
    "Queries([range(0, 2), range(5, 6)])": (
        (4, "....... ####### ......."),
        (0, "### ### ... ... ... ###"),
        (1, "##### ....."),
    ),
    "Queries([True, False, False, True, True, False, True])": (
        (4, "####### ....... #######"),
        (0, "### ... ... ### ### ..."),
        (1, "..... ....."),
    ),
    "Keys([range(1, 2), range(4, 6)])": (
        (4, ".#..##. .#..##. .#..##."),
        (0, ".#. .#. .#. .#. .#. .#."),
        (1, ".#..# .#..#"),
    ),
    "Keys([False, True, True, False, True, False, False])": (
        (4, ".##.#.. .##.#.. .##.#.."),
        (0, ".## .## .## .## .## .##"),
        (1, ".##.# .##.#"),
    ),
    "Timeline([0, 2, 1, 0.5, 3, 1.5, 2.5], [0, 1, 0.5, 2, 1.5, 4, 2.5])": (
        (4, "#####.# ###.#.. #####.#"),
        (0, "#.. ### ### #.# ### ###"),
        (1, "##### ###.."),
    ),
    "Timeline([0, 2, 1, 0.5, 3, 1.5, 2.5], [0, 1, 0.5, 2, 1.5, 4, 2.5], 0.5)": (
        (4, "#####.# #####.. #####.#"),
        (0, "#.# ### ### ### ### ###"),
        (1, "##### ###.#"),
    ),
    "Dilated(3, 2)": (
        (4, "#.#.#.. .#.#.#. ..#.#.#"),
        (0, "#.. .#. #.# .#. #.# .#."),
        (1, ".#... #.#.."),
    ),
    "Strided(3)": (
        (4, ".#..#.. ..#..#. #..#..#"),
        (0, "#.. .#. ..# #.. .#. ..#"),
        (1, ".#..# ..#.."),
    ),
    "RandomBlocks(2, 2, seed=7)": (
        (4, "..####. ..####. ####..."),
        (0, "##. ##. ### ### ..# ..#"),
        (1, "##... ####."),
    ),
    "Tree([-1, 0, 0, 1, 3], 2)": (
        (4, "###.#.. ####.#. ####.##"),
        (0, "##. ##. ### ### ### ###"),
        (1, "##... ###.."),
    ),
    "Tree([2, 0, -1, 2, 1], 2)": (
        (4, "##..#.. ##..##. #####.#"),
        (0, "##. ##. ### ### ##. ##."),
        (1, "##... ###.#"),
    ),
    "Shift(Causal(), q=2)": (
        (4, "###.... ####... #####.."),
        (0, "... ... #.. ##. ### ###"),
        (1, "..... #...."),
    ),
    "Shift(Window(2), k=1)": (
        (4, "....##. .....## ......#"),
        (0, "##. .## ..# ... ... ..."),
        (1, ".##.. ..##."),
    ),
    "Shift(Prefix(2), q=3, k=1)": (
        (4, "###.... ###.... ###...."),
        (0, "### ### ### ### ### ###"),
        (1, "###.. ###.."),
    ),
}
GRIDS = [(text, *grid) for text, grids in GOLDEN.items() for grid in grids]
TABLE = "##..# ..##. .#.#.", [[1, 1, 0, 0, 1], [0, 0, 1, 1, 0], [0, 1, 0, 1, 0]]


def picture(rows: str) -> np.ndarray:
    """Read '#.. ##.' as a bool grid."""
    return np.array([[cell == "#" for cell in row] for row in rows.split()])


def holds(text: str, q_start: int, rows: str, evaluate=evaluate) -> bool:
    cells = picture(rows)
    q_pos = np.arange(q_start, q_start + cells.shape[0])
    return np.array_equal(evaluate(parse(text), q_pos, np.arange(cells.shape[1])), cells)


@pytest.mark.parametrize(("text", "q_start", "rows"), GRIDS)
def test_primitive_evaluates_to_its_golden_grid(text, q_start, rows):
    """An edge moved by one, or a grid aligned to the wrong corner."""
    assert holds(text, q_start, rows)


@pytest.mark.parametrize(("text", "q_start", "rows"), GRIDS)
def test_primitive_binds_to_its_golden_grid(text, q_start, rows):
    """A binder that disagrees with the meaning."""
    cells = picture(rows)
    assert np.array_equal(bind(parse(text), *cells.shape, q_start=q_start).dense(), cells)


def test_table_is_read_query_first():
    """A transposed table."""
    rows, array = TABLE
    mask = Table(np.array(array, bool))
    assert np.array_equal(evaluate(mask, np.arange(3), np.arange(5)), picture(rows))
    assert np.array_equal(bind(mask, 3, 5, q_start=0).dense(), picture(rows))
    assert np.array_equal(bind(mask, 2, 4, q_start=1).dense(), picture(rows)[1:, :4])


def test_random_blocks_ignores_negative_positions():
    """A key before the first, seen because -1 also stands for an unfilled draw."""
    mask = parse("RandomBlocks(2, 2, seed=7)")
    grid = evaluate(mask, np.arange(-3, 3), np.arange(-3, 3))
    assert not grid[:3].any()
    assert not grid[:, :3].any()
    assert grid[3:, 3:].any()


def test_last_queries_are_the_default_alignment():
    """The upper-left alignment that makes a decode step see one key only."""
    assert np.array_equal(bind(parse("Causal()"), 2, 5).dense(), picture("####. #####"))
    assert np.array_equal(bind(parse("Window(2)"), 1, 7).dense(), picture(".....##"))


FLIPPED = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq}
WATCHED = ("_leaf", "_data_leaf", "_among", "_tree")


class Flip(ast.NodeTransformer):
    """Flip the comparison number `target` inside the watched functions, counting from 0."""

    def __init__(self, target: int):
        self.target, self.seen, self.inside = target, 0, False

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        self.inside = node.name in WATCHED
        self.generic_visit(node)
        self.inside = False
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.Compare:
        self.generic_visit(node)
        if self.inside:
            ops = []
            for op in node.ops:
                if type(op) in FLIPPED:
                    op = FLIPPED[type(op)]() if self.seen == self.target else op
                    self.seen += 1
                ops.append(op)
            node.ops = ops
        return node


def mutant(target: int) -> tuple[ModuleType, int]:
    """Return the meaning with one comparison flipped, and how many comparisons there are."""
    flip = Flip(target)
    tree = ast.fix_missing_locations(flip.visit(ast.parse(inspect.getsource(meaning))))
    module = ModuleType("mutant")
    exec(compile(tree, "mutant", "exec"), module.__dict__)
    return module, flip.seen


def survives(target: int) -> bool:
    module, _ = mutant(target)
    try:
        if not all(holds(*grid, evaluate=module.evaluate) for grid in GRIDS):
            return False
        grid = module.evaluate(parse("RandomBlocks(2, 2, seed=7)"), np.arange(3), np.arange(-3, 3))
    except IndexError:
        return False
    return not grid[:, :3].any()


def test_unchanged_meaning_survives_the_mutation_check():
    """Control: the check must not kill everything."""
    assert survives(-1)


@pytest.mark.parametrize("target", range(mutant(-1)[1]))
def test_flipped_comparison_breaks_a_golden_grid(target):
    """Golden grids that would not notice < in place of <=."""
    assert not survives(target)


def test_random_blocks_draw_is_uniform_enough():
    """A generator whose low bits repeat: every block must be drawn about equally often."""
    mask = parse("RandomBlocks(1, 2, seed=3)")
    counts = np.bincount(drawn_blocks(mask, np.full(1, 7))[0], minlength=8)
    for seed in range(400):
        mask = parse(f"RandomBlocks(1, 2, seed={seed})")
        counts += np.bincount(drawn_blocks(mask, np.full(1, 7))[0], minlength=8)
    assert counts.min() > 60  # of 100 expected; 5 standard deviations below
