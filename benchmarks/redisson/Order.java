// What the benchmarks ask for: benchmarks/worker/messages.ts says what each order is. What an order does not name is 0 or null.

import com.google.gson.annotations.SerializedName;
import java.util.List;

record Order(
    // "do" is no name for a component
    @SerializedName("do") String what,
    String peer,
    List<String> urls,
    long leaseMs,
    String name,
    int lanes,
    int callers,
    int count,
    double durationMs,
    double fromMs,
    double toMs,
    String counterUrl,
    int writeEvery) {}
