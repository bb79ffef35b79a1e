/** How a task ended. The times do not include waiting. */
record GroupResult<T>(
    String groupKey,
    String taskId,
    Status status,
    T value,
    Throwable error,
    long startTimeNanos,
    long endTimeNanos) {

  enum Status {
    SUCCESS,
    FAILED,
    CANCELLED,
    REJECTED
  }

  static <T> GroupResult<T> success(String key, String id, T value, long start, long end) {
    return new GroupResult<>(key, id, Status.SUCCESS, value, null, start, end);
  }

  static <T> GroupResult<T> failed(String key, String id, Throwable error, long start, long end) {
    return new GroupResult<>(key, id, Status.FAILED, null, error, start, end);
  }

  static <T> GroupResult<T> cancelled(
      String key, String id, Throwable error, long start, long end) {
    return new GroupResult<>(key, id, Status.CANCELLED, null, error, start, end);
  }

  static <T> GroupResult<T> rejected(String key, String id) {
    long now = System.nanoTime();
    return new GroupResult<>(key, id, Status.REJECTED, null, null, now, now);
  }
}
