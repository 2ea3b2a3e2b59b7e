// The clock, the threads, and what this process takes of the machine.

import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;

final class Machine {
  static final ExecutorService THREADS = Executors.newCachedThreadPool();

  private Machine() {}

  /** CLOCK_MONOTONIC, as the other processes have it. */
  static double nowMs() {
    return System.nanoTime() / 1e6;
  }

  static void sleepUntil(double atMs) throws InterruptedException {
    double leftMs = atMs - nowMs();
    if (leftMs > 0) TimeUnit.NANOSECONDS.sleep((long) (leftMs * 1e6));
  }

  static double cpuMicros() {
    return ((OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime() / 1e3;
  }

  static long heapBytes() throws InterruptedException {
    System.gc();
    Thread.sleep(50);
    System.gc();
    return ManagementFactory.getMemoryMXBean().getHeapMemoryUsage().getUsed();
  }
}
