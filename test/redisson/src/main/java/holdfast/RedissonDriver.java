// Redisson at the command of a test: one JSON request in each line of stdin, one JSON answer in each line of stdout.
package holdfast;

import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.RedissonRedLock;
import org.redisson.api.RBucket;
import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;
import org.redisson.config.Config;
import org.redisson.config.ShardedSubscriptionMode;

/**
 * Each request names the thread that carries it out: threads own locks. Requests of one thread are carried out in order,
 * those of different threads side by side; answers come as they are ready. The end of stdin ends the process.
 */
public final class RedissonDriver {
  /** A lock is one of a name, or of several, each of a client. */
  record Member(String client, String name) {}

  record Request(
      long id,
      String thread,
      String op,
      // connect
      String client,
      List<String> nodes,
      boolean isCluster,
      boolean hasClassicChannels,
      long watchdogMs,
      // everything else
      String kind,
      List<Member> members,
      long waitMs,
      long leaseMs,
      long ownerNumber,
      String counter,
      int rounds) {}

  private static final Gson JSON = new GsonBuilder().serializeNulls().create();
  private static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);
  private static final Map<String, RedissonClient> CLIENTS = new ConcurrentHashMap<>();
  private static final Map<String, ExecutorService> THREADS = new ConcurrentHashMap<>();

  public static void main(String[] args) throws Exception {
    var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      var request = JSON.fromJson(line, Request.class);
      THREADS
          .computeIfAbsent(request.thread, name -> Executors.newSingleThreadExecutor())
          .execute(() -> answer(request));
    }
    Runtime.getRuntime().halt(0);
  }

  private static void answer(Request request) {
    var answer = new LinkedHashMap<String, Object>();
    answer.put("id", request.id);
    try {
      answer.put("result", carryOut(request));
    } catch (Exception error) {
      answer.put("error", error.getClass().getSimpleName());
      answer.put("message", String.valueOf(error.getMessage()));
    }
    synchronized (OUT) {
      OUT.println(JSON.toJson(answer));
    }
  }

  private static Object carryOut(Request request) throws Exception {
    return switch (request.op) {
      case "connect" -> connect(request);
      case "lock" -> {
        lock(request).lock(request.leaseMs, TimeUnit.MILLISECONDS);
        yield null;
      }
      case "tryLock" -> lock(request).tryLock(request.waitMs, request.leaseMs, TimeUnit.MILLISECONDS);
      case "unlock" -> {
        lock(request).unlock();
        yield null;
      }
      case "lockAs" -> lock(request).lockAsync(request.ownerNumber).toCompletableFuture().get();
      case "unlockAs" -> lock(request).unlockAsync(request.ownerNumber).toCompletableFuture().get();
      case "forceUnlock" -> lock(request).forceUnlock();
      case "isLocked" -> lock(request).isLocked();
      case "isHeldByCurrentThread" -> lock(request).isHeldByCurrentThread();
      case "getHoldCount" -> lock(request).getHoldCount();
      case "remainTimeToLive" -> lock(request).remainTimeToLive();
      case "count" -> count(request);
      case "getToken" -> ((RFencedLock) lock(request)).getToken();
      case "lockAndGetToken" -> ((RFencedLock) lock(request)).lockAndGetToken();
      case "tryLockAndGetToken" ->
          ((RFencedLock) lock(request)).tryLockAndGetToken(request.waitMs, TimeUnit.MILLISECONDS);
      default -> throw new IllegalArgumentException("no such op: " + request.op);
    };
  }

  /** Answers with the id that all owners of this client begin with. */
  private static String connect(Request request) {
    var config = new Config().setLockWatchdogTimeout(request.watchdogMs).setThreads(16).setNettyThreads(4);
    if (request.isCluster) {
      config
          .useClusterServers()
          .addNodeAddress(request.nodes.toArray(new String[0]))
          .setShardedSubscriptionMode(
              request.hasClassicChannels ? ShardedSubscriptionMode.OFF : ShardedSubscriptionMode.AUTO)
          .setMasterConnectionMinimumIdleSize(1);
    } else {
      config.useSingleServer().setAddress(request.nodes.get(0)).setConnectionMinimumIdleSize(1);
    }
    var client = Redisson.create(config);
    CLIENTS.put(request.client, client);
    return client.getId();
  }

  private static RLock lock(Request request) {
    var locks = request.members.stream().map(member -> lock(request.kind, member)).toArray(RLock[]::new);
    return switch (request.kind) {
      case "multi" -> CLIENTS.get(request.members.get(0).client).getMultiLock(locks);
      case "red" -> new RedissonRedLock(locks);
      default -> locks[0];
    };
  }

  private static RLock lock(String kind, Member member) {
    var client = CLIENTS.get(member.client);
    return switch (kind) {
      case "fair" -> client.getFairLock(member.name);
      case "fenced" -> client.getFencedLock(member.name);
      case "spin" -> client.getSpinLock(member.name);
      case "read" -> client.getReadWriteLock(member.name).readLock();
      case "write" -> client.getReadWriteLock(member.name).writeLock();
      default -> client.getLock(member.name);
    };
  }

  /** Counts up `rounds` times, each time under the lock: reads, waits a moment, writes. */
  private static Object count(Request request) throws Exception {
    var lock = lock(request);
    RBucket<String> counter =
        CLIENTS.get(request.members.get(0).client).getBucket(request.counter, StringCodec.INSTANCE);
    for (int round = 0; round < request.rounds; round++) {
      lock.lock();
      try {
        var value = counter.get();
        Thread.sleep(ThreadLocalRandom.current().nextInt(3));
        counter.set(String.valueOf((value == null ? 0 : Long.parseLong(value)) + 1));
      } finally {
        lock.unlock();
      }
    }
    return null;
  }
}
