//! Reads the instructions of a litmus test.

use lookaside::arch::aarch64::{Scope, TlbiOp};
use lookaside_machine::litmus::{
    Acquire, Atomic, Barrier, Condition, Instruction, Operand, Operation, Register, Width,
};

use super::names::{number, register};

/// Reads an instruction. `target` says which instruction a label of the thread stands before.
pub(super) fn instruction(
    text: &str,
    target: &dyn Fn(&str) -> Option<usize>,
) -> Result<Instruction, String> {
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let upper = word.to_ascii_uppercase();
    let operands: Vec<_> = rest.split(',').map(str::trim).collect();
    let found = match (upper.as_str(), operands.as_slice()) {
        ("NOP", [""]) => Some(Instruction::Nop),
        ("ISB", [""]) => Some(Instruction::Isb),
        ("DMB", [kind]) => barrier(kind).map(Instruction::Dmb),
        ("DSB", [kind]) => barrier(kind).map(Instruction::Dsb),
        ("MOV", [to, what]) => copy(to, what),
        ("TLBI", [op, operand @ ..]) => tlbi(op, operand),
        ("CMP", [first, second @ ..]) => compare(first, second),
        ("CSEL" | "CSET", [to, of @ ..]) => select(to, of),
        ("LDR" | "LDAR" | "LDAPR" | "STR" | "STLR", [data, address @ ..]) => {
            access(&upper, data, address)
        }
        ("B" | "B.EQ" | "B.NE" | "CBZ" | "CBNZ", [of @ .., label]) => {
            let condition = match (upper.as_str(), of) {
                ("B", []) => Some(Condition::Always),
                ("B.EQ", []) => Some(Condition::Equal),
                ("B.NE", []) => Some(Condition::NotEqual),
                ("CBZ", [of]) => register(of).map(|(of, wide)| Condition::Zero(of, width(wide))),
                ("CBNZ", [of]) => {
                    register(of).map(|(of, wide)| Condition::NotZero(of, width(wide)))
                }
                _ => None,
            };
            let target = target(label)
                .ok_or_else(|| format!("`{text}` does not lead to a label of its thread"))?;
            condition.map(|condition| Instruction::Branch { condition, target })
        }
        (_, operands) => compute(&upper, operands).or_else(|| atomic(&upper, operands)),
    };
    found.ok_or_else(|| format!("`{text}` is no instruction that the machine has"))
}

const fn width(wide: bool) -> Width {
    if wide { Width::Double } else { Width::Word }
}

fn barrier(kind: &str) -> Option<Barrier> {
    Some(match kind.to_ascii_uppercase().as_str() {
        "SY" | "ISH" | "OSH" | "NSH" => Barrier::Full,
        "LD" | "ISHLD" | "OSHLD" | "NSHLD" => Barrier::Loads,
        "ST" | "ISHST" | "OSHST" | "NSHST" => Barrier::Stores,
        _ => return None,
    })
}

fn constant(text: &str) -> Option<u64> {
    number(text.strip_prefix('#').unwrap_or(text))
}

/// What a `MOV` copies.
fn copy(to: &str, what: &str) -> Option<Instruction> {
    let (to, wide) = register(to)?;
    if let Some((from, also)) = register(what) {
        if from == Register::ZERO || wide && also {
            return Some(Instruction::Copy { to, from });
        }
        let (first, second) = (from, Operand::Register(Register::ZERO));
        let operation = Operation::Or;
        return (!wide && !also).then_some(Instruction::Compute {
            to,
            width: Width::Word,
            operation,
            first,
            second,
        });
    }
    let value = constant(what)?;
    Some(Instruction::Move { to, value: if wide { value } else { value & 0xffff_ffff } })
}

/// A second operand: a register of this width, one that is extended, or a constant.
fn operand(wide: bool, text: &[&str]) -> Option<Operand> {
    match text {
        [text] => match register(text) {
            Some((of, also)) => (also == wide).then_some(Operand::Register(of)),
            None => {
                let value = constant(text)?;
                Some(Operand::Value(if wide { value } else { value & 0xffff_ffff }))
            }
        },
        [text, extend] if extend.eq_ignore_ascii_case("SXTW") => {
            let (of, also) = register(text)?;
            (!also && wide).then_some(Operand::Extended(of))
        }
        _ => None,
    }
}

fn compare(first: &str, second: &[&str]) -> Option<Instruction> {
    let (first, wide) = register(first)?;
    Some(Instruction::Compare { width: width(wide), first, second: operand(wide, second)? })
}

/// `CSEL` of two registers, or `CSET`.
fn select(to: &str, of: &[&str]) -> Option<Instruction> {
    let (to, wide) = register(to)?;
    let (of, condition) = match of {
        [condition] => ([Operand::Value(1), Operand::Value(0)], condition),
        [yes, no, condition] => ([operand(wide, &[yes])?, operand(wide, &[no])?], condition),
        _ => return None,
    };
    let condition = match condition.to_ascii_uppercase().as_str() {
        "EQ" => Condition::Equal,
        "NE" => Condition::NotEqual,
        _ => return None,
    };
    Some(Instruction::Select { to, width: width(wide), condition, of })
}

fn compute(word: &str, operands: &[&str]) -> Option<Instruction> {
    let operation = match word {
        "ADD" => Operation::Add,
        "SUB" => Operation::Subtract,
        "AND" => Operation::And,
        "BIC" => Operation::Clear,
        "ORR" => Operation::Or,
        "EOR" => Operation::Xor,
        "LSL" => Operation::ShiftLeft,
        "LSR" => Operation::ShiftRight,
        _ => return None,
    };
    let [to, first, second @ ..] = operands else { return None };
    let ((to, wide), (first, also)) = (register(to)?, register(first)?);
    let second = operand(wide, second)?;
    let bits = if wide { 64 } else { 32 };
    let shifts = matches!(operation, Operation::ShiftLeft | Operation::ShiftRight);
    let fits = !shifts || matches!(second, Operand::Value(by) if by < bits);
    (wide == also && fits).then_some(Instruction::Compute {
        to,
        width: width(wide),
        operation,
        first,
        second,
    })
}

/// The base of an address, and what is added to it.
fn place(text: &[&str]) -> Option<(Register, Option<Operand>)> {
    let last = text.len().checked_sub(1)?;
    let mut parts = text.to_vec();
    parts[0] = parts[0].strip_prefix('[')?.trim();
    parts[last] = parts[last].strip_suffix(']')?.trim();
    let (base, index) = parts.split_first()?;
    let (base, true) = register(base)? else { return None };
    let index = if index.is_empty() { None } else { Some(operand(true, index)?) };
    Some((base, index))
}

/// A load or a store.
fn access(word: &str, data: &str, address: &[&str]) -> Option<Instruction> {
    let (data, wide) = register(data)?;
    let width = width(wide);
    let (base, index) = place(address)?;
    let acquire = match word {
        "LDAR" => Acquire::Sequential,
        "LDAPR" => Acquire::Processor,
        _ => Acquire::No,
    };
    let ordered = acquire != Acquire::No || word == "STLR";
    if ordered && index.is_some() {
        return None;
    }
    Some(if word.starts_with("LD") {
        Instruction::Load { to: data, width, acquire, base, index }
    } else {
        Instruction::Store { from: data, width, release: word == "STLR", base, index }
    })
}

/// An atomic: its name, suffixes for order, and what it works on.
fn atomic(word: &str, operands: &[&str]) -> Option<Instruction> {
    let (atomic, suffix, told) = [
        ("SWP", Atomic::Swap, true),
        ("CAS", Atomic::CompareSwap, true),
        ("LDADD", Atomic::Add, true),
        ("LDSET", Atomic::Set, true),
        ("LDCLR", Atomic::Clear, true),
        ("STADD", Atomic::Add, false),
        ("STSET", Atomic::Set, false),
        ("STCLR", Atomic::Clear, false),
    ]
    .into_iter()
    .find_map(|(name, atomic, told)| Some((atomic, word.strip_prefix(name)?, told)))?;
    let (acquire, release) = match suffix {
        "" => (false, false),
        "A" if told => (true, false),
        "L" => (false, true),
        "AL" if told => (true, true),
        _ => return None,
    };
    let (first, rest) = operands.split_first()?;
    let (second, address) = if told { rest.split_first()? } else { (&"XZR", rest) };
    let ((first, wide), (second, also)) = (register(first)?, register(second)?);
    if told && wide != also {
        return None;
    }
    // `CAS` names what it compares with first, and what it writes second.
    let (to, from) = if atomic == Atomic::CompareSwap { (first, second) } else { (second, first) };
    let (base, None) = place(address)? else { return None };
    Some(Instruction::Atomic { atomic, to, from, width: width(wide), acquire, release, base })
}

/// A `TLBI` of the first stage.
fn tlbi(op: &str, operand: &[&str]) -> Option<Instruction> {
    let op = op.to_ascii_uppercase();
    let (name, scope) = match op.strip_suffix("IS") {
        Some(name) => (name, Scope::Broadcast),
        None => (op.as_str(), Scope::Local),
    };
    let op = match name {
        "VMALLE1" => TlbiOp::Vmall,
        "VAE1" => TlbiOp::Va,
        "VAAE1" => TlbiOp::Vaa,
        "VALE1" => TlbiOp::Val,
        "VAALE1" => TlbiOp::Vaal,
        "ASIDE1" => TlbiOp::Aside,
        _ => return None,
    };
    let operand = match (op, operand) {
        (TlbiOp::Vmall, []) => None,
        (TlbiOp::Vmall, _) => return None,
        (_, [of]) => Some(register(of)?.0),
        _ => return None,
    };
    Some(Instruction::Tlbi { op, scope, operand })
}
