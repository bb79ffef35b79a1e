import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicIntegerArray;

/** One run of a workload on a new peer; the result maps names to figures. */
final class Workloads {
  private final Options options;
  private final String[] keys;

  Workloads(Options options) {
    this.options = options;
    this.keys = new String[options.keys];
    Arrays.setAll(keys, i -> "key-" + i);
  }

  Map<String, Object> run(KeyedPeer peer) throws Exception {
    return switch (options.workload) {
      case "w4" -> runSleepers(peer);
      case "backlog" -> runBacklog(peer);
      case "w6" -> runRoundTrips(peer);
      default -> runFlood(peer);
    };
  }

  private record SubmitTimes(long first, long last) {}

  /** Checks that a submitter's tasks start in the order in which it submitted them. */
  private static final class Order {
    final AtomicIntegerArray lastOfSubmitter;
    final AtomicBoolean broken = new AtomicBoolean();

    Order(int submitters) {
      lastOfSubmitter = new AtomicIntegerArray(submitters);
    }

    void note(int submitter, int index) {
      if (lastOfSubmitter.get(submitter) > index) {
        broken.set(true);
      }
      lastOfSubmitter.set(submitter, index);
    }
  }

  /** w1, w2, w3. */
  private Map<String, Object> runFlood(KeyedPeer peer) throws Exception {
    boolean measuresMemory = options.workload.equals("w3");
    Order order = options.workload.equals("w2") ? new Order(options.submitters) : null;
    Tally tally = new Tally(options.tasks, options.keys);
    long bytesBefore = measuresMemory ? usedBytes() : 0;
    SubmitTimes submit = submitAll(peer, tally, order);
    long end = tally.awaitEnd();
    Map<String, Object> figures = new LinkedHashMap<>();
    figures.put("ns_per_task", (end - submit.first) / (double) options.tasks);
    if (order != null) {
      figures.put("fifo", !order.broken.get());
    }
    if (measuresMemory) {
      figures.put("bytes_kept_per_key", (usedBytes() - bytesBefore) / (double) options.keys);
    }
    tally.check();
    return figures;
  }

  /**
   * Takes every slot of every key with a task that waits, queues all tasks behind them, and lets
   * go. The time in between is not counted.
   */
  private Map<String, Object> runBacklog(KeyedPeer peer) throws Exception {
    Tally tally = new Tally(options.tasks, options.keys);
    CountDownLatch held = new CountDownLatch(keys.length * options.limit);
    CountDownLatch gate = new CountDownLatch(1);
    for (String key : keys) {
      for (int i = 0; i < options.limit; i++) {
        peer.submit(
            key,
            () -> {
              held.countDown();
              gate.await();
              return 1;
            });
      }
    }
    held.await();
    long bytesBefore = usedBytes();
    SubmitTimes submit = submitAll(peer, tally, null);
    long queuedBytes = usedBytes() - bytesBefore;
    long opened = System.nanoTime();
    gate.countDown();
    long end = tally.awaitEnd();
    double tasks = options.tasks;
    Map<String, Object> figures = new LinkedHashMap<>();
    figures.put("ns_per_task", (submit.last - submit.first + end - opened) / tasks);
    figures.put("submit_ns_per_task", (submit.last - submit.first) / tasks);
    figures.put("bytes_per_waiting_task", queuedBytes / tasks);
    tally.check();
    return figures;
  }

  /** w4: the first pass on a new peer, then the second. */
  private Map<String, Object> runSleepers(KeyedPeer peer) throws Exception {
    Map<String, Object> figures = new LinkedHashMap<>();
    figures.put("cold_ms", napMillis(peer));
    double warm = napMillis(peer);
    figures.put("warm_ms", warm);
    figures.put("total_ms", warm);
    return figures;
  }

  private double napMillis(KeyedPeer peer) throws Exception {
    Tally tally = new Tally(options.tasks, options.keys);
    AtomicIntegerArray running = new AtomicIntegerArray(keys.length);
    AtomicBoolean overLimit = new AtomicBoolean();
    long first = System.nanoTime();
    for (int i = 0; i < options.tasks; i++) {
      int key = i % keys.length;
      peer.submit(
          keys[key],
          () -> {
            if (running.incrementAndGet(key) > options.limit) {
              overLimit.set(true);
            }
            Thread.sleep(10);
            running.decrementAndGet(key);
            return tally.countOne(key);
          });
    }
    long end = tally.awaitEnd();
    if (overLimit.get()) {
      throw new IllegalStateException("a key ran more tasks at once than its limit");
    }
    return (end - first) / 1e6;
  }

  /** w6. */
  private Map<String, Object> runRoundTrips(KeyedPeer peer) throws Exception {
    long[] durations = new long[options.tasks];
    for (int i = 0; i < durations.length; i++) {
      long begin = System.nanoTime();
      peer.submitAndAwait(keys[0], () -> 1);
      durations[i] = System.nanoTime() - begin;
    }
    Arrays.sort(durations);
    Map<String, Object> figures = new LinkedHashMap<>();
    for (int percent : new int[] {50, 90, 99}) {
      int position = (int) ((durations.length - 1) * (long) percent / 100);
      figures.put("p" + percent + "_ns", (double) durations[position]);
    }
    return figures;
  }

  /** Each submitter has its own stretch of the task numbers; keys are taken round robin. */
  private SubmitTimes submitAll(KeyedPeer peer, Tally tally, Order order) throws Exception {
    int submitters = options.submitters;
    long[] begins = new long[submitters];
    long[] ends = new long[submitters];
    CountDownLatch start = new CountDownLatch(1);
    Thread[] threads = new Thread[submitters];
    for (int s = 0; s < submitters; s++) {
      int who = s;
      threads[s] =
          Thread.ofPlatform()
              .start(
                  () -> {
                    awaitQuietly(start);
                    begins[who] = System.nanoTime();
                    submitStretch(peer, tally, order, who);
                    ends[who] = System.nanoTime();
                  });
    }
    start.countDown();
    for (Thread thread : threads) {
      thread.join();
    }
    return new SubmitTimes(
        Arrays.stream(begins).min().getAsLong(), Arrays.stream(ends).max().getAsLong());
  }

  private void submitStretch(KeyedPeer peer, Tally tally, Order order, int who) {
    int begin = (int) ((long) options.tasks * who / options.submitters);
    int end = (int) ((long) options.tasks * (who + 1) / options.submitters);
    for (int i = begin; i < end; i++) {
      int index = i;
      int key = i % keys.length;
      Callable<Integer> task =
          order == null
              ? () -> tally.countOne(key)
              : () -> {
                order.note(who, index);
                return tally.countOne(key);
              };
      peer.submit(keys[key], task);
    }
  }

  private static void awaitQuietly(CountDownLatch latch) {
    try {
      latch.await();
    } catch (InterruptedException e) {
      throw new IllegalStateException("nobody interrupts a submitter", e);
    }
  }

  private static long usedBytes() {
    System.gc();
    System.gc();
    Runtime runtime = Runtime.getRuntime();
    return runtime.totalMemory() - runtime.freeMemory();
  }
}
