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

  record Ask(int caller, double askedMs, boolean writes) {}

  record Stay(Ask ask, double enteredMs, long number) {}

  private final Order order;
  private final List<Stay> stays = new ArrayList<>();
  private final Map<Integer, Ask> waiting = new ConcurrentHashMap<>();
  private final AtomicLong entries = new AtomicLong();
  private final AtomicLong writes = new AtomicLong();
  private final AtomicLong intrusions = new AtomicLong();
  private final CountDownLatch callers;
  private final List<Throwable> troubles = new ArrayList<>();
  /** Read-locked by who is inside. */
  private final ReentrantReadWriteLock inside = new ReentrantReadWriteLock();
  private boolean isOver;

  Crowd(Order order) {
    this.order = order;
    callers = new CountDownLatch(order.callers());
    var lock = Locks.lock(order, order.name());
    var lockToRead = Locks.lockToRead(order, order.name());
    var counterUrl = order.counterUrl();
    var counter = counterUrl == null ? null : Locks.counter(counterUrl, order.name());
    for (int i = 0; i < order.callers(); i++) {
      int caller = i;
      Machine.THREADS.execute(() -> {
        try {
          call(caller, lock, lockToRead, counter);
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

  private void call(int caller, RLock lockToWrite, RLock lockToRead, RBucket<String> counter) throws Exception {
    Machine.sleepUntil(order.fromMs());
    int writeEvery = Math.max(order.writeEvery(), 1);
    int number = caller; // from one of its own on, so that not all write at the same time
    for (double askedMs = Machine.nowMs(); order.toMs() < 0 || askedMs < order.toMs(); askedMs = Machine.nowMs()) {
      var ask = new Ask(caller, askedMs, number++ % writeEvery == 0);
      var lock = ask.writes ? lockToWrite : lockToRead;
      waiting.put(caller, ask);
      lock.lock();
      waiting.remove(caller);
      inside.readLock().lock();
      try {
        if (isOver) continue;
        entries.incrementAndGet();
        if (ask.writes) writes.incrementAndGet();
        double enteredMs = Machine.nowMs();
        long found = counter == null ? -1 : ask.writes ? countUp(counter) : readTwice(counter);
        synchronized (stays) {
          stays.add(new Stay(ask, enteredMs, found));
        }
      } finally {
        inside.readLock().unlock();
        lock.unlock();
      }
    }
  }

  private static long read(RBucket<String> counter) {
    var value = counter.get();
    return value == null ? 0 : Long.parseLong(value);
  }

  /** Returns what it found, which must not change meanwhile. */
  private long readTwice(RBucket<String> counter) {
    long number = read(counter);
    if (read(counter) != number) intrusions.incrementAndGet();
    return number;
  }

  /** Returns what it found. */
  private static long countUp(RBucket<String> counter) {
    long number = read(counter);
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
    var writerWaitsMs = new ArrayList<Double>();
    synchronized (stays) {
      for (var stay : stays) {
        boolean isCounted = stay.enteredMs < order.toMs();
        if (isCounted) whose.add(stay.ask.caller);
        if (isCounted) numbers.add(stay.number);
        if (stay.ask.askedMs < order.toMs()) {
          double waitMs = Math.min(stay.enteredMs, order.toMs()) - stay.ask.askedMs;
          waitsMs.add(waitMs);
          if (stay.ask.writes) writerWaitsMs.add(waitMs);
        }
      }
    }
    for (var ask : waiting.values()) {
      double waitMs = order.toMs() - ask.askedMs;
      waitsMs.add(waitMs);
      if (ask.writes) writerWaitsMs.add(waitMs);
    }
    return Map.of(
        "callers", whose,
        "numbers", numbers,
        "waitsMs", waitsMs,
        "writerWaitsMs", writerWaitsMs,
        "entries", entries.get(),
        "writes", writes.get(),
        "intrusions", intrusions.get(),
        "stuck", waiting.size());
  }
}
