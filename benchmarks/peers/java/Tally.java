import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLongArray;

/**
 * Counts finished tasks and stamps the end of the last one. A virtual thread has no worker of its
 * own to count on, so a task counts on the stripe of its key, and a full stripe counts once.
 */
final class Tally {
  private static final int STRIPES = 1024;
  private static final int LONGS_PER_LINE = 8;

  private final AtomicLongArray left = new AtomicLongArray(STRIPES * LONGS_PER_LINE);
  private final AtomicInteger stripesLeft = new AtomicInteger();
  private final CountDownLatch done = new CountDownLatch(1);
  private volatile long endNanos;

  Tally(int tasks, int keys) {
    for (int i = 0; i < tasks; i++) {
      if (left.incrementAndGet(slotOf(i % keys)) == 1) {
        stripesLeft.incrementAndGet();
      }
    }
  }

  int countOne(int key) {
    if (left.decrementAndGet(slotOf(key)) == 0 && stripesLeft.decrementAndGet() == 0) {
      endNanos = System.nanoTime();
      done.countDown();
    }
    return 1;
  }

  /** Waits for the last task and returns when it ended. */
  long awaitEnd() throws InterruptedException {
    if (!done.await(120, TimeUnit.SECONDS)) {
      throw new IllegalStateException("not all tasks ran within 120 s");
    }
    return endNanos;
  }

  /** Throws if a task ran twice. */
  void check() {
    for (int i = 0; i < STRIPES; i++) {
      if (left.get(slotOf(i)) != 0) {
        throw new IllegalStateException(-left.get(slotOf(i)) + " tasks too many ran");
      }
    }
  }

  private static int slotOf(int key) {
    return key % STRIPES * LONGS_PER_LINE;
  }
}
