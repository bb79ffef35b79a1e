import java.util.concurrent.CancellationException;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;

/** A submitted task of a {@link ThreeLayerExecutor}. */
record TaskHandle<T>(String groupKey, String taskId, Future<GroupResult<T>> future) {

  GroupResult<T> await() throws InterruptedException {
    try {
      return future.get();
    } catch (CancellationException e) {
      long now = System.nanoTime();
      return GroupResult.cancelled(groupKey, taskId, e, now, now);
    } catch (ExecutionException e) {
      long now = System.nanoTime();
      return GroupResult.failed(groupKey, taskId, e.getCause(), now, now);
    }
  }

  boolean cancel(boolean mayInterrupt) {
    return future.cancel(mayInterrupt);
  }
}
