// Locks that nobody else wants: taken and released over and over, or taken and kept.

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;

final class Uncontended {
  private Uncontended() {}

  static Object pairs(Order order) throws Exception {
    double cpu = Machine.cpuMicros();
    double startMs = Machine.nowMs();
    double endMs = startMs + order.durationMs();
    var lanes = new ArrayList<Future<List<Double>>>();
    for (int lane = 0; lane < order.lanes(); lane++) {
      var lock = Locks.lock(order, order.name() + ":" + lane);
      lanes.add(Machine.THREADS.submit(() -> {
        var tookMs = new ArrayList<Double>();
        double atMs = Machine.nowMs();
        do {
          lock.lock();
          lock.unlock();
          double doneMs = Machine.nowMs();
          tookMs.add(doneMs - atMs);
          atMs = doneMs;
        } while (atMs < endMs);
        return tookMs;
      }));
    }
    var all = new ArrayList<Double>();
    for (var lane : lanes) all.addAll(lane.get());
    double durationMs = Machine.nowMs() - startMs;
    all.sort(null);
    return Map.of(
        "count", all.size(),
        "durationMs", durationMs,
        "p50Micros", all.get(all.size() / 2) * 1e3,
        "p99Micros", all.get((int) ((all.size() - 1) * 0.99)) * 1e3,
        "cpuMicros", Machine.cpuMicros() - cpu);
  }

  static void keep(Order order) throws Exception {
    int threads = 64;
    var parts = new ArrayList<Future<?>>();
    for (int part = 0; part < threads; part++) {
      int first = part;
      parts.add(Machine.THREADS.submit(() -> {
        for (int i = first; i < order.count(); i += threads) Locks.lock(order, order.name() + ":" + i).lock();
      }));
    }
    for (var part : parts) part.get();
  }
}
