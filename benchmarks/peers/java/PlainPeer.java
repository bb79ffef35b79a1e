import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Semaphore;

/** A virtual thread per task and a map of semaphores: the least one can write. Not FIFO. */
final class PlainPeer implements KeyedPeer {
  private final int limit;
  private final ConcurrentHashMap<String, Semaphore> semaphores = new ConcurrentHashMap<>();

  PlainPeer(int limit) {
    this.limit = limit;
  }

  @Override
  public void submit(String key, Callable<Integer> task) {
    Semaphore semaphore = semaphores.computeIfAbsent(key, k -> new Semaphore(limit));
    Thread.startVirtualThread(
        () -> {
          semaphore.acquireUninterruptibly();
          try {
            task.call();
          } catch (Exception e) {
            throw new IllegalStateException("a benchmark task does not throw", e);
          } finally {
            semaphore.release();
          }
        });
  }

  @Override
  public int submitAndAwait(String key, Callable<Integer> task) throws Exception {
    CompletableFuture<Integer> result = new CompletableFuture<>();
    submit(key, () -> result.complete(task.call()) ? 1 : 0);
    return result.get();
  }

  @Override
  public void close() {
    semaphores.clear();
  }
}
