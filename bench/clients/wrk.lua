-- Requests for wrk: one small file, or the 200 segments in turn. Prints the totals as one line of JSON.
-- Use: wrk ... -s wrk.lua URL -- small | segments

local SEGMENTS = 200
local requests, turn = {}, 0

function init(args)
  if args[1] == "segments" then
    for i = 1, SEGMENTS do
      requests[i] = wrk.format("GET", string.format("/segment-%03d.bin", i - 1))
    end
  else
    requests[1] = wrk.format("GET", "/small.bin")
  end
end

function request()
  turn = turn % #requests + 1
  return requests[turn]
end

function done(summary, latency, _)
  local e = summary.errors
  io.write(string.format(
    '{"requests": %d, "wire_bytes": %d, "duration_us": %d, "errors": %d, "latency_p50_us": %d, "latency_p99_us": %d}\n',
    summary.requests, summary.bytes, summary.duration, e.connect + e.read + e.write + e.status + e.timeout,
    latency:percentile(50), latency:percentile(99)))
end
