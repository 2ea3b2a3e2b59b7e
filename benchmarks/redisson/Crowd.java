// Callers, each a thread, that all want one lock, again and again.

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.ReentrantReadWriteLock;
import org.redisson.api.RBucket;
import org.redisson.api.RLock;

final class Crowd {
  private static final long GRACE_MS = 1_000;

  record Stay(int caller, double askedMs, double enteredMs, long number) {}

  private final Order order;
  private final List<Stay> stays = new ArrayList<>();
  private final Map<Integer, Double> waiting = new ConcurrentHashMap<>();
  private final AtomicLong entries = new AtomicLong();
  private final CountDownLatch callers;
  private final List<Throwable> troubles = new ArrayList<>();
  /** Read-locked by who is inside. */
  private final ReentrantReadWriteLock inside = new ReentrantReadWriteLock();
  private boolean isOver;

  Crowd(Order order) {
    this.order = order;
    callers = new CountDownLatch(order.callers());
    var lock = Locks.lock(order, order.name());
    var counterUrl = order.counterUrl();
    var counter = counterUrl == null ? null : Locks.counter(counterUrl, order.name());
    for (int i = 0; i < order.callers(); i++) {
      int caller = i;
      Machine.THREADS.execute(() -> {
        try {
          call(caller, lock, counter);
        } catch (Throwable error) {
          synchronized (troubles) {
            troubles.add(error);
          }
        } finally {
          callers.countDown();
        }
      });
    }
  }

  private void call(int caller, RLock lock, RBucket<String> counter) throws Exception {
    Machine.sleepUntil(order.fromMs());
    for (double askedMs = Machine.nowMs(); order.toMs() < 0 || askedMs < order.toMs(); askedMs = Machine.nowMs()) {
      waiting.put(caller, askedMs);
      lock.lock();
      waiting.remove(caller);
      inside.readLock().lock();
      try {
        if (isOver) continue;
        entries.incrementAndGet();
        double enteredMs = Machine.nowMs();
        long number = counter == null ? -1 : countUp(counter);
        synchronized (stays) {
          stays.add(new Stay(caller, askedMs, enteredMs, number));
        }
      } finally {
        inside.readLock().unlock();
        lock.unlock();
      }
    }
  }

  /** Returns what it found. */
  private static long countUp(RBucket<String> counter) {
    var value = counter.get();
    long number = value == null ? 0 : Long.parseLong(value);
    counter.set(String.valueOf(number + 1));
    return number;
  }

  long tally(long durationMs) throws InterruptedException {
    long before = entries.get();
    Thread.sleep(durationMs);
    return entries.get() - before;
  }

  Object disband() throws Exception {
    Machine.sleepUntil(order.toMs());
    callers.await(GRACE_MS, TimeUnit.MILLISECONDS);
    inside.writeLock().lock(); // once nobody is
    isOver = true;
    inside.writeLock().unlock();
    synchronized (troubles) {
      if (!troubles.isEmpty()) throw new IllegalStateException(troubles.get(0));
    }
    var whose = new ArrayList<Integer>();
    var numbers = new ArrayList<Long>();
    var waitsMs = new ArrayList<Double>();
    synchronized (stays) {
      for (var stay : stays) {
        boolean isCounted = stay.enteredMs < order.toMs();
        if (isCounted) whose.add(stay.caller);
        if (isCounted) numbers.add(stay.number);
        if (stay.askedMs < order.toMs()) waitsMs.add(Math.min(stay.enteredMs, order.toMs()) - stay.askedMs);
      }
    }
    for (double askedMs : waiting.values()) waitsMs.add(order.toMs() - askedMs);
    return Map.of(
        "callers", whose,
        "numbers", numbers,
        "waitsMs", waitsMs,
        "entries", entries.get(),
        "stuck", waiting.size());
  }
}
