import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.ReentrantLock;

/**
 * w5, timed as in the C++ peers: from when every thread has had a lock until all of them together
 * have done the run's locks, or a second is over.
 */
final class LockWorkload {
  private static final int LONGEST_RUN_SECONDS = 1;
  private static final int ORDER_LENGTH = 1 << 16; // then it begins anew
  private static final int COUNT_EVERY = 64; // each time, all threads would meet at the counter

  private final int locks; // of all threads together
  private final String[] keys;
  private final int[][] orderOf; // of a thread

  LockWorkload(Options options) {
    locks = options.tasks;
    keys = new String[options.keys];
    Arrays.setAll(keys, i -> String.format("tenant-%06d", i));
    orderOf = new int[options.submitters][];
    Arrays.setAll(
        orderOf, who -> new Random(who + 1).ints(ORDER_LENGTH, 0, keys.length).toArray());
  }

  Map<String, Object> run() throws InterruptedException {
    Run run = new Run();
    Worker[] workers = new Worker[orderOf.length];
    Arrays.setAll(workers, who -> new Worker(run, orderOf[who]));
    for (Worker worker : workers) {
      worker.start();
    }
    if (!run.over.await(LONGEST_RUN_SECONDS, TimeUnit.SECONDS)) {
      run.end();
    }
    for (Worker worker : workers) {
      worker.join();
    }
    long during = Arrays.stream(workers).mapToLong(worker -> worker.during).sum();
    long done = during + Arrays.stream(workers).mapToLong(worker -> worker.before).sum();
    long counted = Arrays.stream(run.counters).sum();
    if (done != counted) {
      throw new IllegalStateException(
          "the lock does not exclude: " + done + " sections counted to " + counted);
    }
    long elapsed =
        Arrays.stream(workers).mapToLong(one -> run.endNanos - one.begin).max().getAsLong();
    if (elapsed <= 0) {
      throw new IllegalStateException("some thread did not get its first lock within a second");
    }
    Map<String, Object> figures = new LinkedHashMap<>();
    figures.put("ns_per_lock", elapsed / (double) during);
    return figures;
  }

  /** What the threads of a run share. */
  private final class Run {
    final LockMap lockMap = new LockMap();
    final long[] counters = new long[keys.length];
    final AtomicInteger arrived = new AtomicInteger();
    final AtomicLong done = new AtomicLong();
    final CountDownLatch over = new CountDownLatch(1);
    volatile boolean ended;
    long endNanos; // guarded by this; read when the threads have been joined

    void lock(int key) {
      ReentrantLock lock = lockMap.of(keys[key]);
      lock.lock();
      try {
        counters[key]++;
      } finally {
        lock.unlock();
      }
    }

    synchronized void end() {
      if (!ended) {
        endNanos = System.nanoTime();
        ended = true;
        over.countDown();
      }
    }
  }

  private final class Worker extends Thread {
    private final Run run;
    private final int[] order;
    int before; // locks before the clock started
    int during; // and after
    long begin;

    Worker(Run run, int[] order) {
      this.run = run;
      this.order = order;
    }

    @Override
    public void run() {
      before = lockUntilAllArrived();
      begin = System.nanoTime();
      during = lockUntilTheEnd();
    }

    private int lockUntilAllArrived() {
      run.lock(order[0]);
      run.arrived.incrementAndGet();
      int count = 1;
      for (; run.arrived.get() < orderOf.length && !run.ended; count++) {
        run.lock(order[count % ORDER_LENGTH]);
      }
      return count;
    }

    private int lockUntilTheEnd() {
      int count = 0;
      while (!run.ended) {
        run.lock(order[count % ORDER_LENGTH]);
        if (++count % COUNT_EVERY == 0 && run.done.addAndGet(COUNT_EVERY) >= locks) {
          run.end();
        }
      }
      return count;
    }
  }
}
