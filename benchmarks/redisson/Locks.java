// Redisson's locks, of one client for each server and lease.

import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.redisson.Redisson;
import org.redisson.api.RBucket;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;
import org.redisson.config.Config;

final class Locks {
  private static final Map<String, RedissonClient> CLIENTS = new ConcurrentHashMap<>();

  private Locks() {}

  static RLock lock(Order order, String name) {
    var client = client(order.urls().get(0), order.leaseMs());
    if (order.peer().equals("redisson-read-write")) return client.getReadWriteLock(name).writeLock();
    return order.peer().equals("redisson-fair") ? client.getFairLock(name) : client.getLock(name);
  }

  /** For one who only reads: the same lock, unless that is a read-write lock. */
  static RLock lockToRead(Order order, String name) {
    if (!order.peer().equals("redisson-read-write")) return lock(order, name);
    return client(order.urls().get(0), order.leaseMs()).getReadWriteLock(name).readLock();
  }

  /** A number that others count up, too. */
  static RBucket<String> counter(String url, String name) {
    return client(url, 0).getBucket(name + ":counter", StringCodec.INSTANCE);
  }

  private static RedissonClient client(String url, long leaseMs) {
    return CLIENTS.computeIfAbsent(url + leaseMs, key -> {
      var config = new Config();
      if (leaseMs > 0) config.setLockWatchdogTimeout(leaseMs);
      config.useSingleServer().setAddress(url);
      return Redisson.create(config);
    });
  }
}
