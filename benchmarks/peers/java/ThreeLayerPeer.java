import java.util.concurrent.Callable;

/** {@link ThreeLayerExecutor} as a peer. Not FIFO: threads reach the semaphores in any order. */
final class ThreeLayerPeer implements KeyedPeer {
  private final ThreeLayerExecutor executor;

  ThreeLayerPeer(int limit) {
    executor = new ThreeLayerExecutor(GroupPolicy.ofConcurrency(limit));
  }

  @Override
  public void submit(String key, Callable<Integer> task) {
    executor.submit(key, "task", task);
  }

  @Override
  public int submitAndAwait(String key, Callable<Integer> task) throws Exception {
    return executor.submit(key, "task", task).await().value();
  }

  @Override
  public void close() {
    executor.close();
  }
}
