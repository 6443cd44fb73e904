-- Summaries: answers for the default window, computed once in a pass over the schedule. The views of
-- the same questions read them and compute the answers for any other window.

CREATE TABLE fair_share_sum (
  trace_id BIGINT NOT NULL,        -- Recording.
  start_ns BIGINT NOT NULL,        -- Start of the window.
  end_ns BIGINT NOT NULL,          -- End of the window.
  utid BIGINT NOT NULL,            -- Thread.
  weight INTEGER NOT NULL,         -- Its weight among the threads that share.
  run_ns BIGINT NOT NULL,          -- Running time.
  ready_ns BIGINT NOT NULL,        -- Ready time.
  crowded_ready_ns BIGINT NOT NULL, -- Part of ready_ns with more runnable threads than CPUs.
  fair_ready_ns BIGINT NOT NULL    -- Ready time that fair sharing would cost it.
);
