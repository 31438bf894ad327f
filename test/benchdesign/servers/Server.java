import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.Executors;

/** A server that allocates for each request: java Server.java -listen HOST:PORT [-garbage KIB] */
class Server {
    static final byte[][] KEPT = new byte[64][];

    static String option(List<String> all, String name, String otherwise) {
        int at = all.indexOf(name);
        return at < 0 ? otherwise : all.get(at + 1);
    }

    public static void main(String[] args) throws Exception {
        List<String> all = Arrays.asList(args);
        String[] listen = option(all, "-listen", "127.0.0.1:0").split(":");
        int garbage = Integer.parseInt(option(all, "-garbage", "0"));
        HttpServer server = HttpServer.create(new InetSocketAddress(listen[0], Integer.parseInt(listen[1])), 64);
        server.setExecutor(Executors.newFixedThreadPool(4));
        byte[] ok = "ok\n".getBytes();
        server.createContext("/", exchange -> {
            for (int i = 0; i < garbage; i++) {
                byte[] b = new byte[1 << 10];
                b[0] = (byte) i;
                KEPT[i % KEPT.length] = b;
            }
            exchange.getRequestBody().readAllBytes();
            exchange.sendResponseHeaders(200, ok.length);
            exchange.getResponseBody().write(ok);
            exchange.close();
        });
        server.start();
    }
}
