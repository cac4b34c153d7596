//! Machine: the file of `--token-auth-file`: lines of CSV with token, user, uid and groups.

use steersman_apiserver::User;

/// Why a line of the file is invalid, and the number of the line, counted from 1.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TokenLineProblem {
    pub(super) line: usize,
    pub(super) why: &'static str,
}

/// Parses the file, and returns the tokens and their users (upstream: `tokenfile.NewCSV`).
pub(super) fn users(text: &str) -> Result<Vec<(String, User)>, TokenLineProblem> {
    let mut users = Vec::new();
    for (index, row) in text.lines().enumerate() {
        let line = index + 1;
        let problem = |why| TokenLineProblem { line, why };
        if row.trim().is_empty() {
            continue;
        }
        let fields = fields(row).ok_or_else(|| problem("a quote does not end"))?;
        let mut fields = fields.into_iter().map(|field| field.trim().to_owned());
        let (Some(token), Some(name), Some(uid)) = (fields.next(), fields.next(), fields.next())
        else {
            return Err(problem("it needs three fields: token, user and uid"));
        };
        if name.is_empty() {
            return Err(problem("it has no user"));
        }
        // As upstream, skips a line with an empty token.
        if token.is_empty() {
            continue;
        }
        let groups = fields.next().unwrap_or_default();
        let groups = groups.split(',').filter(|group| !group.is_empty());
        let user = groups.fold(User::new(name).uid(uid), User::group);
        users.push((token, user));
    }
    Ok(users)
}

/// Splits a line of CSV into its fields. A quote within quotes is doubled. `None` if a quote does not end.
fn fields(row: &str) -> Option<Vec<String>> {
    let mut fields = vec![String::new()];
    let mut is_quoted = false;
    let mut chars = row.chars().peekable();
    while let Some(char) = chars.next() {
        let field = fields.last_mut()?;
        match char {
            '"' if is_quoted && chars.peek() == Some(&'"') => {
                chars.next();
                field.push('"');
            }
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => fields.push(String::new()),
            char => field.push(char),
        }
    }
    (!is_quoted).then_some(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_a_user_and_groups() {
        let text = "t1,ann,u1,\"system:masters,team\"\n\nt2, bob ,u2\nt3,\"c \"\"x\"\"\",,one\r\n";
        let users = users(text).unwrap();
        assert_eq!(users[0].0, "t1");
        assert_eq!(users[0].1.name, "ann");
        assert_eq!(users[0].1.uid, "u1");
        assert_eq!(users[0].1.groups, ["system:masters", "team"]);
        assert_eq!(users[1].1, User::new("bob").uid("u2"));
        assert_eq!(users[2].1.name, "c \"x\"");
        assert_eq!(users[2].1.groups, ["one"]);
        assert_eq!(super::users(",b,c\n").unwrap().len(), 0);
    }

    #[test]
    fn a_problem_has_the_number_of_its_line() {
        for (text, line) in [("a,b\n", 1), ("a,b,c\n,b,c\nt,,u\n", 3), ("a,b,c,\"d\n", 1)] {
            assert_eq!(users(text).unwrap_err().line, line, "{text:?}");
        }
    }
}
