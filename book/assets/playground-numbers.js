/* What a run of the playground comes to: numbers, rows for the charts, lanes for the flow panel. Used by playground.js.
 *
 * The rules are those of labcode.results: percentiles by nearest rank, refused and failed requests stay in the denominator, a statistic
 * of nothing is null ("no data"). A test holds the numbers to labcode's own.
 */
window.playgroundNumbers = (function () {
  "use strict";
  const FINISHED = 0, NAMES = ["finished", "refused", "cancelled", "timed out", "failed", "unfinished", "unknown"];
  const DIGITS = 1e4; // The flow panel counts in ten-thousandths of a second.

  // Ascending values -> the smallest at or below which at least a share of them lies.
  function percentile(sorted, share) {
    if (!sorted.length) return null;
    return sorted[Math.max(0, Math.min(sorted.length - 1, Math.ceil(share * sorted.length * (1 - 1e-12)) - 1))];
  }

  const ascending = (values) => values.filter((value) => value !== null && !Number.isNaN(value)).sort((a, b) => a - b);
  const mean = (values) => (values.length ? values.reduce((sum, value) => sum + value, 0) / values.length : null);
  const minus = (a, b) => (a === null || b === null ? null : a - b);

  // When each decode step of the run ended, by its number.
  function decodeEnds({ segments, lines }) {
    const ends = [];
    segments.start.forEach(function (start, i) {
      if (!segments.n_decode[i]) return;
      let t = start;
      for (let k = 0; k + 1 < segments.steps[i]; k++) {
        const [memory, memorySlope, compute, computeSlope] = lines[i];
        t += Math.max(memory + memorySlope * k, compute + computeSlope * k);
        ends.push(t);
      }
      ends.push(segments.end[i]);
    });
    return ends;
  }

  // Every request's tokens: when each came, and the number of its step.
  function tokenTimes(run) {
    const ends = decodeEnds(run), times = run.load.arrival.map(() => []);
    const order = run.span_request.map((_, k) => k).sort((a, b) => run.span_time[a] - run.span_time[b]);
    for (const k of order) {
      const list = times[run.span_request[k]], first = run.span_first[k];
      list.push(run.span_time[k]);
      for (let j = 0; j < run.span_count[k]; j++) list.push(ends[first + j]);
    }
    return times;
  }

  function summary(run, slo) {
    const { load } = run, n = load.arrival.length, tokens = tokenTimes(run);
    const ttft = load.arrival.map((arrival, i) => minus(run.first_token[i], arrival));
    const tpot = load.output.map((output, i) => (output > 1 && run.outcome[i] === FINISHED ? (run.last_token[i] - run.first_token[i]) / (output - 1) : null));
    const gaps = tokens.flatMap((times) => times.slice(1).map((t, k) => t - times[k])).sort((a, b) => a - b);
    const done = load.arrival.map((_, i) => i).filter((i) => run.outcome[i] === FINISHED);
    const good = done.filter((i) => ttft[i] <= slo.ttft && (load.output[i] === 1 || tpot[i] <= slo.tpot)).length;
    const last = Math.max(-Infinity, ...run.finished.map((t) => t ?? -Infinity), ...run.first_token.map((t) => t ?? -Infinity));
    const duration = last > load.arrival[0] ? last - load.arrival[0] : null;
    const over = (value) => (duration === null ? null : value / duration);
    const firsts = ascending(ttft), paces = ascending(tpot), waits = ascending(load.arrival.map((arrival, i) => minus(run.admitted[i], arrival)));
    const counts = NAMES.map((_, code) => run.outcome.filter((outcome) => outcome === code).length);
    return {
      submitted: n, counts, ttft, tpot, gaps, tokens, duration_s: duration,
      finished_per_s: over(done.length), goodput_per_s: over(good), slo_of_submitted: good / n,
      output_tokens_per_s: over(done.reduce((sum, i) => sum + load.output[i], 0)),
      ttft_p50_s: percentile(firsts, 0.5), ttft_p99_s: percentile(firsts, 0.99), ttft_max_s: percentile(firsts, 1),
      tpot_p50_s: percentile(paces, 0.5), tpot_p99_s: percentile(paces, 0.99),
      itl_p50_s: percentile(gaps, 0.5), itl_p99_s: percentile(gaps, 0.99), itl_max_s: percentile(gaps, 1),
      waited_mean_s: mean(waits), waited_max_s: percentile(waits, 1),
      preemptions: run.preemptions.reduce((a, b) => a + b, 0), recomputed_tokens: run.recomputed.reduce((a, b) => a + b, 0),
    };
  }

  // Who waited longest for a place, and which tenant fared worst.
  function starved(run) {
    const waits = run.load.arrival.map((arrival, i) => minus(run.admitted[i], arrival));
    const worst = waits.reduce((best, wait, i) => (wait !== null && (best < 0 || wait > waits[best]) ? i : best), -1);
    const tenants = new Map();
    (run.load.tenant || []).forEach((name, i) => { if (waits[i] !== null) tenants.set(name, [...(tenants.get(name) || []), waits[i]]); });
    const each = [...tenants].map(([name, values]) => ({ name, longest: Math.max(...values), mean: mean(values) })).sort((a, b) => b.longest - a.longest);
    return { request: worst, wait: worst < 0 ? null : waits[worst], tenants: each };
  }

  const thinned = (values, most) => (values.length <= most ? values.map((_, i) => i) : Array.from({ length: most }, (_, k) => Math.round((k * (values.length - 1)) / (most - 1))));

  // Rows of the four charts: what runs and waits, what the cache holds, each TTFT, and the distribution of gaps.
  function charts(run, sums, other) {
    const { segments } = run, end = segments.end[segments.end.length - 1] || 1;
    const steps = (value) => ({ x: [...segments.start, end], y: [...segments.start.map((_, i) => value(i)), value(segments.start.length - 1)] });
    const line = (values) => {
      const known = thinned(values, 160);
      return { x: known.map((i) => 1e3 * values[i]), y: known.map((i) => (i + 1) / values.length) };
    };
    const none = { x: [], y: [] }, there = segments.start.length > 0;
    return {
      ttft: [{ x: run.load.arrival, y: sums.ttft }, other ? { x: other.run.load.arrival, y: other.sums.ttft } : none],
      itl: [line(sums.gaps), other ? line(other.sums.gaps) : none],
      queue: there ? [steps((i) => segments.n_prefill[i] + segments.n_decode[i]), steps((i) => segments.waiting[i])] : [none, none],
      kv: there ? [steps((i) => segments.kv_used[i] / run.capacity), steps((i) => segments.kv_reserved[i] / run.capacity)] : [none, none],
    };
  }

  // A run as a lane of the flow panel, as labcode.labkit.flow.compact writes it; null if nobody finished.
  function lane(run, tokens, name, places) {
    const tick = (t) => Math.round(t * DIGITS);
    const served = run.load.arrival.map((_, i) => i).filter((i) => run.outcome[i] === FINISHED);
    if (!served.length) return null;
    const stays = served.flatMap((i) => run.stays[i].map(([start, end]) => ({ start, end, i })));
    stays.sort((a, b) => a.start - b.start || a.i - b.i);
    const free = [];
    for (const stay of stays) {
      let seat = free.findIndex((since) => since <= stay.start + 1e-9);
      if (seat < 0) seat = free.length;
      free[seat] = stay.end;
      stay.seat = seat;
    }
    const steps = [...new Set(served.flatMap((i) => tokens[i].map(tick)))].sort((a, b) => a - b);
    const place = new Map(steps.map((step, k) => [step, k]));
    const lives = served.map(function (i) {
      const runs = [];
      for (const t of tokens[i]) {
        const k = place.get(tick(t)), at = runs.length;
        if (at && k === runs[at - 2] + runs[at - 1]) runs[at - 1]++;
        else runs.push(k, 1);
      }
      const own = stays.filter((stay) => stay.i === i).map(({ start, end, seat }) => [tick(start), tick(end), seat]);
      const parts = (run.chunks[i] || []).length > 1 ? run.chunks[i].map(([t, count]) => [tick(t), count]) : [];
      return [tick(run.load.arrival[i]), tick(run.admitted[i]), tick(run.finished[i]), run.load.prompt[i], 0, own[own.length - 1][2], runs, own, parts];
    });
    const block = Math.max(16, Math.ceil(run.capacity / 480 / 16) * 16);
    return { name, seats: Math.min(places, free.length), blocks: Math.floor(run.capacity / block), block, steps: steps.map((step, k) => (k ? step - steps[k - 1] : step)), lives };
  }

  return { NAMES, summary, starved, charts, lane };
})();
