// One end of a hand-over between processes. A lock is released by the thread that took it, which waits for that here.

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import org.redisson.api.RLock;

final class Relay {
  final CompletableFuture<Double> entered = new CompletableFuture<>();
  private final CountDownLatch held = new CountDownLatch(1);
  private final CountDownLatch letGo = new CountDownLatch(1);
  private final CompletableFuture<Double> begun = new CompletableFuture<>();

  static Relay holding(RLock lock) throws InterruptedException {
    var relay = new Relay();
    Machine.THREADS.execute(() -> {
      lock.lock();
      relay.held.countDown();
      awaitQuietly(relay.letGo);
      double startMs = Machine.nowMs();
      lock.unlock();
      relay.begun.complete(startMs);
    });
    relay.held.await();
    return relay;
  }

  static Relay waiting(RLock lock) {
    var relay = new Relay();
    Machine.THREADS.execute(() -> {
      lock.lock();
      double enteredMs = Machine.nowMs();
      lock.unlock();
      relay.entered.complete(enteredMs);
    });
    return relay;
  }

  private static void awaitQuietly(CountDownLatch latch) {
    try {
      latch.await();
    } catch (InterruptedException error) {
      throw new IllegalStateException(error);
    }
  }

  double letGo() throws Exception {
    letGo.countDown();
    return begun.get();
  }
}
