import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.locks.ReentrantLock;

/** A lock per key that is kept for ever. */
final class LockMap {
  private final ConcurrentHashMap<String, ReentrantLock> locks = new ConcurrentHashMap<>();

  ReentrantLock of(String key) {
    ReentrantLock lock = locks.get(key); // without the bucket's lock, which the next may take
    return lock != null ? lock : locks.computeIfAbsent(key, k -> new ReentrantLock());
  }
}
