import java.util.Objects;
import java.util.concurrent.Callable;
import java.util.concurrent.CancellationException;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.locks.Lock;
import java.util.concurrent.locks.ReentrantReadWriteLock;

/**
 * A semaphore per group over virtual threads (three layered semaphores).
 *
 * <p>Each submit starts a virtual thread of the group's own executor. The thread then takes three
 * fair permits, in this order: global in-flight, group in-flight, group concurrency. A task that
 * finds no permit takes a place in the queue, or is rejected, and blocks its virtual thread. A
 * read-write lock per group keeps evicting a group apart from looking up its semaphores.
 */
final class ThreeLayerExecutor implements AutoCloseable {
  private final GroupPolicy policy;
  private final AtomicBoolean closed = new AtomicBoolean();
  private final Semaphore globalInFlight;
  private final Semaphore globalQueue;
  private final ConcurrentHashMap<String, ReentrantReadWriteLock> locks =
      new ConcurrentHashMap<>();
  private final ConcurrentHashMap<String, ExecutorService> executors = new ConcurrentHashMap<>();
  private final ConcurrentHashMap<String, Semaphore> bulkheads = new ConcurrentHashMap<>();
  private final ConcurrentHashMap<String, Semaphore> semaphores = new ConcurrentHashMap<>();
  private final ConcurrentHashMap<String, Semaphore> queues = new ConcurrentHashMap<>();

  ThreeLayerExecutor(GroupPolicy policy) {
    this.policy = policy;
    this.globalInFlight = new Semaphore(policy.globalMaxInFlight(), true);
    this.globalQueue = queueOf(policy.globalQueueThreshold());
  }

  <T> TaskHandle<T> submit(String groupKey, String taskId, Callable<T> task) {
    if (closed.get()) {
      throw new IllegalStateException("the executor is shut down");
    }
    Objects.requireNonNull(groupKey, "groupKey");
    Objects.requireNonNull(taskId, "taskId");
    Objects.requireNonNull(task, "task");
    Lock lock = lockOf(groupKey).readLock();
    lock.lock();
    try {
      ExecutorService executor =
          executors.computeIfAbsent(groupKey, k -> Executors.newVirtualThreadPerTaskExecutor());
      Future<GroupResult<T>> future =
          executor.submit(() -> executeWithIsolation(groupKey, taskId, task));
      return new TaskHandle<>(groupKey, taskId, future);
    } finally {
      lock.unlock();
    }
  }

  void evictGroup(String groupKey) {
    Lock lock = lockOf(groupKey).writeLock();
    lock.lock();
    try {
      executors.remove(groupKey);
      bulkheads.remove(groupKey);
      semaphores.remove(groupKey);
      queues.remove(groupKey);
    } finally {
      lock.unlock();
    }
  }

  @Override
  public void close() {
    if (closed.compareAndSet(false, true)) {
      executors.values().forEach(ExecutorService::shutdownNow);
      executors.clear();
      bulkheads.clear();
      semaphores.clear();
      queues.clear();
    }
  }

  private <T> GroupResult<T> executeWithIsolation(String key, String id, Callable<T> task) {
    Semaphore bulkhead;
    Semaphore semaphore;
    Semaphore queue;
    Lock lock = lockOf(key).readLock();
    lock.lock();
    try {
      bulkhead =
          bulkheads.computeIfAbsent(key, k -> new Semaphore(policy.resolveMaxInFlight(k), true));
      semaphore =
          semaphores.computeIfAbsent(key, k -> new Semaphore(policy.resolveConcurrency(k), true));
      int threshold = policy.resolveQueueThreshold(key);
      queue =
          threshold == GroupPolicy.UNLIMITED
              ? null
              : queues.computeIfAbsent(key, k -> queueOf(threshold));
    } finally {
      lock.unlock();
    }

    boolean hasGlobal = false;
    boolean hasBulkhead = false;
    boolean hasSemaphore = false;
    try {
      hasGlobal = acquire(globalInFlight, globalQueue);
      hasBulkhead = hasGlobal && acquire(bulkhead, queue);
      hasSemaphore = hasBulkhead && acquire(semaphore, queue);
      if (!hasSemaphore) {
        return GroupResult.rejected(key, id);
      }
      return execute(key, id, task);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      long now = System.nanoTime();
      return GroupResult.cancelled(key, id, e, now, now);
    } finally {
      if (hasSemaphore) {
        semaphore.release();
      }
      if (hasBulkhead) {
        bulkhead.release();
      }
      if (hasGlobal) {
        globalInFlight.release();
      }
    }
  }

  private static <T> GroupResult<T> execute(String key, String id, Callable<T> task) {
    long start = System.nanoTime();
    try {
      T value = task.call();
      return GroupResult.success(key, id, value, start, System.nanoTime());
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      return GroupResult.cancelled(key, id, e, start, System.nanoTime());
    } catch (CancellationException e) {
      return GroupResult.cancelled(key, id, e, start, System.nanoTime());
    } catch (Exception e) {
      return GroupResult.failed(key, id, e, start, System.nanoTime());
    }
  }

  /** False means rejected: no permit was free, and the queue was full. */
  private static boolean acquire(Semaphore permits, Semaphore queue) throws InterruptedException {
    if (permits.tryAcquire()) {
      return true;
    }
    if (queue == null) {
      permits.acquire();
      return true;
    }
    if (!queue.tryAcquire()) {
      return false;
    }
    try {
      permits.acquire();
      return true;
    } finally {
      queue.release();
    }
  }

  private ReentrantReadWriteLock lockOf(String groupKey) {
    return locks.computeIfAbsent(groupKey, k -> new ReentrantReadWriteLock());
  }

  /** An unlimited queue needs no counting, which flatters this peer. */
  private static Semaphore queueOf(int threshold) {
    return threshold == GroupPolicy.UNLIMITED ? null : new Semaphore(threshold, true);
  }
}
