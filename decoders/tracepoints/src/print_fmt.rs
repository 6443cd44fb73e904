//! What the `print fmt` of a tracepoint states about the numbers in its fields.

/// The bit of `prev_state` that prints as `+`: the kernel preempted the thread.
///
/// The kernel writes it as an expression over constants, such as
/// `REC->prev_state & (((0x0000 | 0x0001) + 1) << 1) ? "+" : ""`.
pub fn plus_mask(print_fmt: &str) -> Option<i64> {
    let end = print_fmt.find("? \"+\" : \"\"")?;
    let before = print_fmt.get(..end)?;
    let start = before.rfind("REC->prev_state &")? + "REC->prev_state &".len();
    let mut expression =
        Expression { text: before.get(start..)?.trim().as_bytes(), at: 0, depth: 0 };
    let mask = expression.or()?;
    expression.skip();
    (expression.at == expression.text.len() && mask != 0).then_some(mask)
}

/// The words of `__print_symbolic(REC->field, { 0, "HI" }, ...)`.
pub fn symbols(print_fmt: &str, field: &str) -> Vec<(i64, String)> {
    let head = format!("__print_symbolic(REC->{field},");
    let Some(start) = print_fmt.find(&head) else { return Vec::new() };
    let rest = print_fmt.get(start + head.len()..).unwrap_or_default();
    let mut found = Vec::new();
    for pair in rest.split(')').next().unwrap_or_default().split('{').skip(1) {
        let Some((number, word)) = pair.split('}').next().and_then(|pair| pair.split_once(','))
        else {
            continue;
        };
        if let Ok(number) = number.trim().parse() {
            found.push((number, word.trim().trim_matches('"').to_owned()));
        }
    }
    found
}

/// Constant expressions of C with `|`, `<<`, `+`, `-` and parentheses.
struct Expression<'a> {
    text: &'a [u8],
    at: usize,
    depth: u32,
}

impl Expression<'_> {
    fn skip(&mut self) {
        while self.text.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
    }

    fn eat(&mut self, word: &[u8]) -> bool {
        self.skip();
        let here = self.text.get(self.at..).is_some_and(|rest| rest.starts_with(word));
        self.at += if here { word.len() } else { 0 };
        here
    }

    fn or(&mut self) -> Option<i64> {
        let mut value = self.shift()?;
        while self.eat(b"|") {
            value |= self.shift()?;
        }
        Some(value)
    }

    fn shift(&mut self) -> Option<i64> {
        let mut value = self.sum()?;
        while self.eat(b"<<") {
            value = value.checked_shl(u32::try_from(self.sum()?).ok()?)?;
        }
        Some(value)
    }

    fn sum(&mut self) -> Option<i64> {
        let mut value = self.atom()?;
        loop {
            if self.eat(b"+") {
                value = value.checked_add(self.atom()?)?;
            } else if self.eat(b"-") {
                value = value.checked_sub(self.atom()?)?;
            } else {
                return Some(value);
            }
        }
    }

    fn atom(&mut self) -> Option<i64> {
        if self.eat(b"(") {
            self.depth += 1;
            if self.depth > 32 {
                return None;
            }
            let value = self.or()?;
            self.depth -= 1;
            return self.eat(b")").then_some(value);
        }
        self.skip();
        let start = self.at;
        while self.text.get(self.at).is_some_and(u8::is_ascii_alphanumeric) {
            self.at += 1;
        }
        let word = std::str::from_utf8(self.text.get(start..self.at)?).ok()?;
        match word.strip_prefix("0x") {
            Some(digits) => i64::from_str_radix(digits, 16).ok(),
            None => word.parse().ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plus_bit_is_found_in_the_spellings_of_several_kernels() {
        let kernel_6 = "\"...%s%s\", (REC->prev_state & 3) ? x : \"R\", REC->prev_state & \
            (((0x00000000 | 0x00000001 | 0x00000002 | 0x00000004 | 0x00000008 | 0x00000010 | \
            0x00000020 | 0x00000040) + 1) << 1) ? \"+\" : \"\", REC->next_comm";
        assert_eq!(plus_mask(kernel_6), Some(0x100));
        assert_eq!(plus_mask("REC->prev_state & 2048 ? \"+\" : \"\""), Some(2048));
        assert_eq!(plus_mask("REC->prev_state & TASK_MAX ? \"+\" : \"\""), None);
        assert_eq!(plus_mask("REC->prev_state"), None);
        let deep = format!("REC->prev_state & {}1 ? \"+\" : \"\"", "(".repeat(100_000));
        assert_eq!(plus_mask(&deep), None);
    }

    #[test]
    fn softirq_names_come_from_the_file() {
        let fmt = "\"vec=%u [action=%s]\", REC->vec, __print_symbolic(REC->vec, { 0, \"HI\" }, \
            { 1, \"TIMER\" }, { 9, \"RCU\" })";
        assert_eq!(
            symbols(fmt, "vec"),
            [(0, "HI".to_owned()), (1, "TIMER".to_owned()), (9, "RCU".to_owned())]
        );
    }
}
