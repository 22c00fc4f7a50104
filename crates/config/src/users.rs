//! Users of this machine: the one that the server becomes after a start as root.

use std::fs;

/// A user with its groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Its name, or `uid:gid`.
    pub name: String,
    /// Its number.
    pub uid: u32,
    /// Its primary group.
    pub gid: u32,
    /// Its other groups.
    pub groups: Vec<u32>,
}

impl User {
    /// Whether a file of this owner, group and mode may be read by the user.
    #[must_use]
    pub fn may_read(&self, uid: u32, gid: u32, mode: u32) -> bool {
        self.permissions(uid, gid, mode) & 0o4 != 0
    }

    /// Whether the entries of a directory of this owner, group and mode may be used by the user.
    #[must_use]
    pub fn may_search(&self, uid: u32, gid: u32, mode: u32) -> bool {
        self.permissions(uid, gid, mode) & 0o1 != 0
    }

    /// The three bits of a mode that are the user's.
    fn permissions(&self, uid: u32, gid: u32, mode: u32) -> u32 {
        if self.uid == uid {
            mode >> 6
        } else if self.gid == gid || self.groups.contains(&gid) {
            mode >> 3
        } else {
            mode
        }
    }
}

/// The name of the user that this process runs as, and of its group; their numbers if they have none.
pub(crate) fn of_this_process() -> (String, String) {
    use std::os::unix::fs::MetadataExt;

    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    // The owner of these files is the effective user.
    let (uid, gid) = fs::metadata("/proc/self").map_or((0, 0), |found| (found.uid(), found.gid()));
    (name_of(uid, &read("/etc/passwd")), name_of(gid, &read("/etc/group")))
}

/// The name with this number in a file such as `/etc/passwd`; the number if there is none.
fn name_of(number: u32, file: &str) -> String {
    let wanted = number.to_string();
    let name = file.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == wanted).then(|| name.to_owned())
    });
    name.unwrap_or(wanted)
}

/// Finds a user by its name in `/etc/passwd`, or by `uid:gid`.
pub(crate) fn find(text: &str) -> Option<User> {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    find_in(text, &read("/etc/passwd"), &read("/etc/group"))
}

fn find_in(text: &str, passwd: &str, group: &str) -> Option<User> {
    if let Some((uid, gid)) = text.split_once(':') {
        let (uid, gid) = (uid.parse().ok()?, gid.parse().ok()?);
        return Some(User { name: text.to_owned(), uid, gid, groups: Vec::new() });
    }
    let fields = |line: &str| line.split(':').map(str::to_owned).collect::<Vec<_>>();
    let (uid, gid) = passwd.lines().map(fields).find_map(|fields| match fields.as_slice() {
        [name, _, uid, gid, ..] if name == text => Some((uid.parse().ok()?, gid.parse().ok()?)),
        _ => None,
    })?;
    let member_of = |fields: Vec<String>| match fields.as_slice() {
        [_, _, gid, members] if members.split(',').any(|member| member == text) => gid.parse().ok(),
        _ => None,
    };
    let groups = group.lines().map(fields).filter_map(member_of).collect();
    Some(User { name: text.to_owned(), uid, gid, groups })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str = "root:x:0:0:root:/root:/bin/bash\nbroken\npenstock:x:998:997::/:/bin/false\n";
    const GROUP: &str = "root:x:0:\nssl-cert:x:110:penstock,other\npenstock:x:997:\nbroken\n";

    #[test]
    fn a_name_comes_with_its_groups_and_numbers_alone() {
        let user = find_in("penstock", PASSWD, GROUP).unwrap();
        assert_eq!((user.uid, user.gid, user.groups), (998, 997, vec![110]));
        let user = find_in("1000:1001", PASSWD, GROUP).unwrap();
        assert_eq!((user.uid, user.gid, user.groups), (1000, 1001, Vec::new()));
        for unknown in ["", "nginx", "998", "a:b", "1:2:3", "-1:0"] {
            assert_eq!(find_in(unknown, PASSWD, GROUP), None, "{unknown}");
        }
    }

    #[test]
    fn a_number_has_its_name_or_stays_a_number() {
        assert_eq!((name_of(998, PASSWD), name_of(110, GROUP)), ("penstock".into(), "ssl-cert".into()));
        assert_eq!((name_of(99, PASSWD), name_of(0, "")), ("99".into(), "0".into()));
    }

    #[test]
    fn permission_is_that_of_the_first_class_that_fits() {
        let user = find_in("penstock", PASSWD, GROUP).unwrap();
        assert!(user.may_read(998, 0, 0o400) && !user.may_read(998, 0, 0o044));
        assert!(user.may_read(0, 110, 0o040) && !user.may_read(0, 110, 0o404));
        assert!(user.may_read(0, 0, 0o004) && !user.may_read(0, 0, 0o640));
    }
}
