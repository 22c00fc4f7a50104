//! Which calls fail, and how.

use super::scene::fails;

#[test]
fn reads_of_files_that_fail_cost_single_responses() {
    for error in ["error=EIO", "error=ENOMEM", "retval=0"] {
        fails("pread64,preadv,preadv2", error, 2);
    }
}

#[test]
fn files_that_cannot_be_opened_cost_single_responses() {
    for error in ["error=EMFILE", "error=ENFILE", "error=EIO", "error=ENOMEM"] {
        fails("open,openat,openat2", error, 2);
    }
}

#[test]
fn files_whose_facts_are_missing_cost_single_responses() {
    for error in ["error=EIO", "error=ENOMEM"] {
        fails("stat,fstat,newfstatat,statx", error, 2);
    }
}

#[test]
fn writes_to_tiers_and_logs_that_fail_cost_no_response_for_good() {
    for error in ["error=ENOSPC", "error=EIO", "error=EDQUOT"] {
        fails("pwrite64,pwritev,pwritev2,ftruncate,fsync,fdatasync", error, 2);
    }
}

#[test]
fn pages_that_cannot_be_given_back_cost_no_slot_for_good() {
    fails("fallocate", "error=EINTR", 2);
}

#[test]
fn sends_that_fail_cut_single_connections() {
    for error in ["error=ENOMEM", "error=ENOBUFS", "error=ECONNRESET"] {
        // Not `write`: it also wakes threads by eventfds, which do not fail so.
        fails("writev,sendto,sendmsg", error, 5);
    }
    for error in ["error=EIO", "error=ENOMEM"] {
        fails("sendfile", error, 2);
    }
}

#[test]
fn receives_that_fail_cut_single_connections() {
    for error in ["error=ECONNRESET", "error=ENOMEM", "retval=0"] {
        fails("recvfrom,recvmsg", error, 5);
    }
}

#[test]
fn connections_that_cannot_be_accepted_are_accepted_later() {
    for error in ["error=EMFILE", "error=ENFILE", "error=ENOMEM", "error=ECONNABORTED"] {
        fails("accept,accept4", error, 2);
    }
}

#[test]
fn connections_to_origins_that_fail_are_tried_again() {
    for error in ["error=EADDRNOTAVAIL", "error=ENETUNREACH"] {
        fails("connect", error, 2);
    }
    for error in ["error=EMFILE", "error=ENOBUFS"] {
        fails("socket", error, 2);
    }
}

#[test]
fn options_of_sockets_that_fail_cost_single_connections() {
    fails("setsockopt,getsockopt,ioctl", "error=ENOMEM", 3);
}
