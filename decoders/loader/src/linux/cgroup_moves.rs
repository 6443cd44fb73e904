//! Threads that move between cgroups, as a table.

use arrow_array::RecordBatch;
use arrow_schema::ArrowError;
use schedlens_schedule::batcher::Batcher;
use schedlens_schedule::columns::{Column, texts};

use super::threads::Threads;

/// Threads that are looked at, in all, to find those of processes that move: a recording whose
/// every record moves a process must not take time that grows with its square.
const MOST_SOUGHT: usize = 1 << 28;
/// What is said of attachments that are left out.
pub(crate) const VERSION_1: &str = "moves in a cgroup hierarchy of version 1, whose controllers \
     are not recorded: left out";
/// What is said where the threads of a process were not sought.
pub(crate) const UNSOUGHT: &str = "very many moves of processes: only the thread that each names \
     is moved";

impl Threads {
    /// `cgroup_attach_task` of a hierarchy. A leader moves with all threads of its process: the
    /// kernel reports a move of the whole process once, for its leader.
    pub(crate) fn attached(&mut self, hierarchy: i64, tid: i32, ts: i64, path: String) {
        // Number 0 is the unified hierarchy.
        if hierarchy != 0 {
            self.cgroups.version_1 += 1;
            return;
        }
        let Some(life) = self.now(tid, -1) else { return };
        let number = self.cgroups.number(path);
        self.cgroups.set(life, ts, number, "move");
        let process = self.lives[life as usize].process;
        let leads = process.is_some_and(|process| self.processes[process as usize].pid == tid);
        if !leads {
            return;
        }
        self.cgroups.sought += self.lives.len();
        if self.cgroups.sought > MOST_SOUGHT {
            self.cgroups.unsought += 1;
            return;
        }
        for (other, member) in self.lives.iter().enumerate() {
            if member.process == process && member.end_ns.is_none() {
                self.cgroups.set(other as u32, ts, number, "move");
            }
        }
    }

    /// Rows of `thread_cgroup`.
    pub(crate) fn cgroup_batch(&self, batcher: &Batcher) -> Result<RecordBatch, ArrowError> {
        let mut utid = Column::default();
        let mut tid = Column::default();
        let mut ts = Column::default();
        let mut paths = Vec::new();
        for change in &self.cgroups.changes {
            utid.push(self.utid(change.life));
            tid.push(i64::from(self.lives[change.life as usize].tid));
            ts.push(change.ts);
            paths.push(self.cgroups.paths.get(change.path as usize).map(String::as_str));
        }
        let rows = paths.len();
        let columns = vec![
            ("ts", ts.array()),
            ("utid", utid.array()),
            ("tid", tid.array()),
            ("cgroup", texts(paths.into_iter())),
            ("source", texts(self.cgroups.changes.iter().map(|change| Some(change.source)))),
        ];
        batcher.batch("thread_cgroup", rows, columns)
    }
}

#[cfg(test)]
mod tests {
    use super::super::threads::{Birth, Threads};

    fn rows(threads: &Threads) -> Vec<(u32, i64, &str)> {
        let cgroups = &threads.cgroups;
        let path = |number: u32| cgroups.paths[number as usize].as_str();
        cgroups.changes.iter().map(|one| (one.life, one.ts, path(one.path))).collect()
    }

    // process 10 with threads 10 and 11, process 20
    #[test]
    fn leader_moves_with_its_threads_and_another_thread_alone() {
        let mut threads = Threads::new(0);
        for (pid, tid) in [(10, 10), (10, 11), (20, 20)] {
            threads.fork(Birth::Record, tid, Some(pid), None, -1);
        }
        threads.attached(0, 10, 5, "/game".into());
        threads.attached(0, 11, 6, "/game/io".into());
        assert_eq!(rows(&threads), [(0, 5, "/game"), (1, 5, "/game"), (1, 6, "/game/io")]);
    }

    #[test]
    fn child_begins_where_its_parent_is() {
        let mut threads = Threads::new(0);
        threads.fork(Birth::Record, 10, Some(10), None, -1);
        threads.attached(0, 10, 5, "/game".into());
        threads.fork(Birth::Record, 12, Some(12), Some(9), 10);
        threads.fork(Birth::Record, 13, Some(13), Some(9), 99);
        assert_eq!(rows(&threads), [(0, 5, "/game"), (1, 9, "/game")]);
    }

    #[test]
    fn samples_change_it_and_unknown_ids_do_not() {
        let mut threads = Threads::new(0);
        let life = threads.now(7, 0).expect("there");
        threads.cgroups.named(40, "/a".into());
        for (ts, id) in [(1, 40), (2, 40), (3, 41), (4, 40)] {
            threads.cgroups.sampled(life, ts, id);
        }
        threads.attached(3, 7, 5, "/other".into());
        assert_eq!(rows(&threads), [(0, 1, "/a")]);
        assert_eq!(threads.cgroups.version_1, 1);
    }
}
