// Redisson as a worker process of the benchmarks: the orders are those of benchmarks/worker/messages.ts, one JSON request in each
// line of stdin, one JSON answer in each line of stdout.

import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

public final class RedissonWorker {
  record Request(long id, Order order) {}

  private static final Gson JSON = new GsonBuilder().serializeNulls().create();
  private static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);
  private static final Map<String, Crowd> CROWDS = new ConcurrentHashMap<>();
  private static final Map<String, Relay> RELAYS = new ConcurrentHashMap<>();

  public static void main(String[] args) throws Exception {
    var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      var request = JSON.fromJson(line, Request.class);
      Machine.THREADS.execute(() -> answer(request));
    }
    Runtime.getRuntime().halt(0);
  }

  private static void answer(Request request) {
    var reply = new LinkedHashMap<String, Object>();
    reply.put("id", request.id);
    try {
      reply.put("answer", carryOut(request.order));
    } catch (Throwable error) {
      reply.put("error", String.valueOf(error));
    }
    synchronized (OUT) {
      OUT.println(JSON.toJson(reply));
    }
  }

  private static Object carryOut(Order order) throws Exception {
    switch (order.what()) {
      case "pairs":
        return Uncontended.pairs(order);
      case "crowd":
        CROWDS.put(order.name(), new Crowd(order));
        return null;
      case "disband":
        return CROWDS.remove(order.name()).disband();
      case "tally":
        return CROWDS.get(order.name()).tally((long) order.durationMs());
      case "hold":
        RELAYS.put(order.name(), Relay.holding(Locks.lock(order, order.name())));
        return null;
      case "let go":
        return RELAYS.remove(order.name()).letGo();
      case "wait":
        RELAYS.put(order.name(), Relay.waiting(Locks.lock(order, order.name())));
        return null;
      case "tell":
        return RELAYS.remove(order.name()).entered.get();
      case "keep":
        Uncontended.keep(order);
        return null;
      case "usage":
        return Map.of("atMs", Machine.nowMs(), "cpuMicros", Machine.cpuMicros());
      case "heap":
        return Machine.heapBytes();
      default:
        throw new IllegalArgumentException("no such order: " + order.what());
    }
  }
}
