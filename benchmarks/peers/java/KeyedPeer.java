import java.util.concurrent.Callable;

/** Runs tasks under keys, at most {@code limit} of one key at a time. */
interface KeyedPeer extends AutoCloseable {
  /** Submits and drops the handle, which flatters the peer: nobody keeps a result. */
  void submit(String key, Callable<Integer> task);

  /** Submits and waits for the result. */
  int submitAndAwait(String key, Callable<Integer> task) throws Exception;

  @Override
  void close();
}
