"""The reader of machine code, on hand-written snippets: no toolkit and no GPU needed."""

import json
import textwrap

import pytest

from numba_gemm.analysis.code import sass


def listing(code):
    """nvdisasm text of `code`: an address before every instruction; "4 FFMA" is four of them."""
    lines, address = [], 0
    for line in textwrap.dedent(code).strip().splitlines():
        number, _, opcode = line.partition(" ")
        repeat, text = (int(number), f"{opcode} R0, R1, R2, R0") if number.isdecimal() else (1, line)
        if line.endswith(":"):
            lines.append(line)
            continue
        for _ in range(repeat):
            lines.append(f"        /*{address:04x}*/                   {text} ;")
            address += 16
    return "\n".join(lines)


def loop_of(code):
    return sass.main_loop(sass.parse(listing(code)))


SIMPLE_LOOP = """
    S2R R3, SR_TID.X
    .L_x_1:
    LDG.E.128.CONSTANT R4, desc[UR4][R2.64]
    STS.128 [R9], R4
    BAR.SYNC.DEFER_BLOCKING 0x0
    LDS.128 R12, [R8+0x10]
    FFMA R0, R12, R16, R0
    FFMA R1, R13, R16, R1
    ISETP.NE.AND P0, PT, R7, RZ, PT
    @P0 BRA `(.L_x_1)
    EXIT
    .L_x_2:
    BRA `(.L_x_2)
    NOP
"""


def test_parse_reads_predicate_opcode_operands_and_resolves_labels():
    code = sass.parse(listing(SIMPLE_LOOP))
    branch = next(i for i in code if i.base == "BRA")
    assert branch == sass.Instruction(0x80, "@P0", "BRA", ("`(.L_x_1)",), 0x10)
    load = code[1]
    assert (load.base, load.modifiers) == ("LDG", ("E", "128", "CONSTANT"))
    assert load.operands == ("R4", "desc[UR4][R2.64]")
    assert load.target is None


def test_parse_reads_cuobjdump_with_encodings_and_numeric_targets():
    text = """
        code for sm_90a
                Function : kernel
        .headerflags    @"EF_CUDA_SM90"
        /*0000*/                   FFMA R0, R1, R2, R0 ;          /* 0x000080400000791a */
                                                                   /* 0x000fc80000000000 */
        /*0010*/              @!P1 BRA 0x0 ;                       /* 0x00000000ff047435 */
                                                                   /* 0x000fe200000001ff */
        /*0020*/                   EXIT ;                          /* 0x0000000014007950 */
    """
    code = sass.parse(text)
    assert [i.opcode for i in code] == ["FFMA", "BRA", "EXIT"]
    assert code[1].target == 0
    assert sass.main_loop(code).ffma == 1


def test_parse_skips_data_and_directives():
    text = '\t.section\t.text.k,"ax",@progbits\n.text.k:\n        /*0000*/ \t.word\t0x00000018\n' + listing("EXIT")
    assert [i.opcode for i in sass.parse(text)] == ["EXIT"]


def test_only_branches_take_a_target():
    """A return address is moved by its label, and the label before the end of the text has no instruction."""
    code = sass.parse(listing("MOV R20, 32@lo((k + .L_x_0@srel))\n.L_x_0:\nCALL.ABS.NOINC `(cpa16)\n.L_x_9:"))
    assert [i.target for i in code] == [None, None]
    assert code[0].operands == ("R20", "32@lo((k + .L_x_0@srel))")


def test_parse_refuses_what_it_cannot_read():
    with pytest.raises(ValueError, match="no machine instruction in 5 characters"):
        sass.parse("hello")
    with pytest.raises(ValueError, match=r"0x0 follows 0x10: .* more than one function"):
        sass.parse(listing("NOP\nEXIT") + "\n" + listing("EXIT"))


@pytest.mark.parametrize(
    ("opcode", "pattern", "expected"),
    [
        ("LDG.E.128.CONSTANT", "LDG.128", True),
        ("LDG.E.128.CONSTANT", "LDG.CONSTANT.128", True),
        ("LDG.E.64", "LDG.128", False),
        ("LDGSTS.E.BYPASS.128", "LDG", False),
        ("LDGSTS.E.BYPASS.128", "LDGSTS.BYPASS", True),
        ("STS", "STS.128", False),
        ("BAR.SYNC.DEFER_BLOCKING", "BAR.SYNC", True),
    ],
)
def test_matches_by_base_and_modifiers(opcode, pattern, expected):
    assert sass.Instruction(0, "", opcode, ()).matches(pattern) is expected


@pytest.mark.parametrize(
    ("opcode", "nbytes"), [("STS", 4), ("STS.64", 8), ("LDS.128", 16), ("LDG.E.U8", 1), ("LDG.E", 4)]
)
def test_access_bytes(opcode, nbytes):
    assert sass.Instruction(0, "", opcode, ()).access_bytes == nbytes


def test_padding_that_never_executes_is_no_load():
    """The assembler puts `@!PT LDS RZ, [RZ]` before LDGSTS: an issue slot, but no shared-memory access."""
    loop = loop_of(
        """
        .L_x_0:
        @!PT LDS RZ, [RZ]
        LDS R4, [R5]
        LDGSTS.E.BYPASS.128 [R5], desc[UR4][R6.64]
        1 FFMA
        @P0 BRA `(.L_x_0)
        EXIT
        """
    )
    assert loop.instructions == 5
    assert loop.mix["@!PT LDS"] == loop.mix["LDS"] == 1
    assert sass.count(loop.body, "LDS") == len(sass.select(loop.body, "LDS")) == 1


def test_count_matches_a_prefix():
    code = sass.parse(listing("LDS R0, [R1]\nLDS.128 R4, [R1]\nLDG.E R8, desc[UR4][R2.64]\nEXIT"))
    assert sass.count(code, r"LD[SG]") == 3
    assert sass.count(code, r"LDS\.128") == 1


def test_main_loop_statistics():
    loop = loop_of(SIMPLE_LOOP)
    assert (loop.start, loop.end) == (0x10, 0x80)
    assert json.loads(json.dumps(loop.to_dict())) == {
        "instructions": 8,
        "ffma": 2,
        "ffma_share": 2 / 8,
        "operand_fetches_per_ffma": 3.0,
        "bank_triples": 1,
        "barriers": 1,
        "mix": {
            "FFMA": 2,
            "BAR.SYNC.DEFER_BLOCKING": 1,
            "BRA": 1,
            "ISETP.NE.AND": 1,
            "LDG.E.128.CONSTANT": 1,
            "LDS.128": 1,
            "STS.128": 1,
        },
    }
    assert next(iter(loop.mix)) == "FFMA"
    assert loop.per_ffma("LDS.128") == 0.5


@pytest.mark.parametrize(
    ("ffmas", "fetches", "triples"),
    [
        # R2, R4, R6: all even.
        (["FFMA R6, R2, R4, R6"], 3, 1),
        (["FFMA R6, R2, R5, R6"], 3, 0),
        # The second FFMA finds R4 in the operand cache of its slot.
        (["FFMA R6, R2, R4.reuse, R6", "FFMA R8, R10, R4, R8"], 5, 1),
        # A hit lasts one instruction unless it is marked again.
        (["FFMA R6, R2, R4.reuse, R6", "FFMA R8, R10, R4, R8", "FFMA R9, R3, R4, R9"], 8, 1),
        # Slots do not share: R4 moved from the second to the first.
        (["FFMA R6, R2, R4.reuse, R6", "FFMA R8, R4, R11, R8"], 6, 1),
        # Anything in between clears the slots.
        (["FFMA R6, R2, R4.reuse, R6", "NOP", "FFMA R8, R10, R4, R8"], 6, 2),
        # One register twice is one fetch; RZ, constants and uniform registers are none.
        (["FFMA R6, R2, R2, R6"], 2, 0),
        (["FFMA R6, R2, c[0x0][0x160], RZ"], 1, 0),
        (["FFMA R6, -R2, UR4, |R8|"], 2, 0),
    ],
)
def test_register_fetches(ffmas, fetches, triples):
    loop = loop_of("\n".join([".L_x_0:", *ffmas, "@P0 BRA `(.L_x_0)", "EXIT"]))
    assert loop.operand_fetches_per_ffma * loop.ffma == pytest.approx(fetches)
    assert loop.bank_triples == triples


def test_unrolled_loop_wins_over_its_remainder():
    loop = loop_of(
        """
        @P1 BRA `(.L_x_1)
        .L_x_0:
        4 FFMA
        @P0 BRA `(.L_x_0)
        .L_x_1:
        1 FFMA
        @P0 BRA `(.L_x_1)
        EXIT
        """
    )
    assert loop.ffma == 4


def test_inner_loop_that_is_not_unrolled_wins_over_the_tile_loop():
    """Both hold the same FFMAs; the smaller one runs more often."""
    loop = loop_of(
        """
        .L_x_0:
        LDG.E R9, desc[UR4][R2.64]
        .L_x_1:
        2 FFMA
        @P0 BRA `(.L_x_1)
        BAR.SYNC 0x0
        @P1 BRA `(.L_x_0)
        EXIT
        """
    )
    assert (loop.ffma, loop.barriers, loop.instructions) == (2, 0, 3)


def test_loop_over_output_tiles_yields_although_it_holds_the_drain_too():
    loop = loop_of(
        """
        .L_x_0:
        MOV R0, RZ
        .L_x_1:
        8 FFMA
        @P0 BRA `(.L_x_1)
        10 FFMA
        STG.E [R2], R0
        @P1 BRA `(.L_x_0)
        EXIT
        """
    )
    assert loop.ffma == 8


def test_main_loop_keeps_a_small_loop_inside_it():
    loop = loop_of(
        """
        .L_x_0:
        16 FFMA
        .L_x_1:
        1 FFMA
        @P0 BRA `(.L_x_1)
        @P1 BRA `(.L_x_0)
        EXIT
        """
    )
    assert loop.ffma == 17


def test_cold_code_out_of_line_is_neither_a_loop_nor_part_of_one():
    """The block at the end branches back into the middle of the loop; that is no loop over all in between."""
    loop = loop_of(
        """
        .L_x_0:
        1 FFMA
        BRA.DIV UR4, `(.L_x_8)
        .L_x_1:
        3 FFMA
        @P0 BRA `(.L_x_0)
        16 FFMA
        EXIT
        .L_x_8:
        NOP
        BRA `(.L_x_1)
        """
    )
    assert (loop.ffma, loop.instructions) == (4, 6)


def test_loop_left_by_a_call_hides_nothing_after_it():
    """For a long way out of a loop, ptxas emits a predicated CALL and then the branch back."""
    loop = loop_of(
        """
        .L_x_1:
        1 FFMA
        @!P0 CALL.REL.NOINC `(.L_x_0)
        BRA `(.L_x_1)
        .L_x_0:
        MOV R0, RZ
        .L_x_2:
        2 FFMA
        BRA.U UP0, `(.L_x_2)
        EXIT
        """
    )
    assert loop.ffma == 2


def test_no_loop_is_an_error_with_numbers():
    with pytest.raises(ValueError, match=r"no loop with an FFMA among 2 instructions \(1 FFMAs outside"):
        loop_of("1 FFMA\nEXIT")
