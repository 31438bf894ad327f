import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.IntConsumer;
import java.util.function.LongConsumer;

/** A server of Tomcat, Jetty or Undertow with the paths and the output of server.py: counts of requests, bodies and connections. */
public class Server {
    static final AtomicLong requests = new AtomicLong(), body = new AtomicLong();
    static final Map<Integer, AtomicLong> statuses = new ConcurrentSkipListMap<>();
    static final Set<Integer> peers = ConcurrentHashMap.newKeySet();

    /** Answers one request, in three writes. HEAD has none. */
    static void answer(String method, String path, int peer, InputStream in, IntConsumer status, LongConsumer length, OutputStream out) throws IOException {
        requests.incrementAndGet();
        peers.add(peer);
        body.addAndGet(in.transferTo(OutputStream.nullOutputStream()));
        int code = path.equals("/gone") ? 410 : 200;
        status.accept(code);
        if (!path.equals("/parts")) {
            length.accept(5);
        }
        // Before the body: the client may have it all, and close the connection, while the last flush goes on.
        statuses.computeIfAbsent(code, c -> new AtomicLong()).incrementAndGet();
        for (String part : method.equals("HEAD") ? new String[0] : new String[] {"hel", "l", "o"}) {
            out.write(part.getBytes());
            out.flush();
        }
    }

    interface Stop {
        void stop() throws Exception;
    }

    static Stop tomcat(String host, int port) throws Exception {
        var server = new org.apache.catalina.startup.Tomcat();
        server.setBaseDir(System.getProperty("java.io.tmpdir"));
        var connector = new org.apache.catalina.connector.Connector();
        connector.setProperty("address", host);
        connector.setPort(port);
        connector.addUpgradeProtocol(new org.apache.coyote.http2.Http2Protocol());
        server.setConnector(connector);
        var context = server.addContext("", null);
        org.apache.catalina.startup.Tomcat.addServlet(context, "all", new jakarta.servlet.http.HttpServlet() {
            @Override
            protected void service(jakarta.servlet.http.HttpServletRequest r, jakarta.servlet.http.HttpServletResponse a) throws IOException {
                answer(r.getMethod(), r.getRequestURI(), r.getRemotePort(), r.getInputStream(), a::setStatus, a::setContentLengthLong,
                    a.getOutputStream());
            }
        });
        context.addServletMappingDecoded("/*", "all");
        server.start();
        return server::stop;
    }

    static Stop jetty(String host, int port) throws Exception {
        var server = new org.eclipse.jetty.server.Server();
        var config = new org.eclipse.jetty.server.HttpConfiguration();
        var connector = new org.eclipse.jetty.server.ServerConnector(server, new org.eclipse.jetty.server.HttpConnectionFactory(config),
            new org.eclipse.jetty.http2.server.HTTP2CServerConnectionFactory(config));
        connector.setHost(host);
        connector.setPort(port);
        server.addConnector(connector);
        server.setHandler(new org.eclipse.jetty.server.handler.AbstractHandler() {
            @Override
            public void handle(String path, org.eclipse.jetty.server.Request base, javax.servlet.http.HttpServletRequest r,
                javax.servlet.http.HttpServletResponse a) throws IOException {
                base.setHandled(true);
                answer(r.getMethod(), path, r.getRemotePort(), r.getInputStream(), a::setStatus, a::setContentLengthLong, a.getOutputStream());
            }
        });
        server.start();
        return server::stop;
    }

    static Stop undertow(String host, int port) throws Exception {
        io.undertow.server.HttpHandler all = e -> {
            e.startBlocking();
            answer(e.getRequestMethod().toString(), e.getRequestPath(), e.getSourceAddress().getPort(), e.getInputStream(), e::setStatusCode,
                e::setResponseContentLength, e.getOutputStream());
            e.endExchange();
        };
        var server = io.undertow.Undertow.builder().addHttpListener(port, host)
            .setServerOption(io.undertow.UndertowOptions.ENABLE_HTTP2, true)
            .setHandler(new io.undertow.server.handlers.HttpContinueReadHandler(new io.undertow.server.handlers.BlockingHandler(all))).build();
        server.start();
        return server::stop;
    }

    public static void main(String[] args) throws Exception {
        int port = Integer.parseInt(args[2]);
        Stop server = switch (args[0]) {
            case "tomcat" -> tomcat(args[1], port);
            case "jetty" -> jetty(args[1], port);
            default -> undertow(args[1], port);
        };
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            try {
                server.stop();
            } catch (Exception e) {
                e.printStackTrace();
            }
            System.out.printf("{\"requests\": %s, \"body\": %s, \"statuses\": %s, \"connections\": %d}%n", requests, body,
                new TreeMap<>(statuses).toString().replaceAll("(\\d+)=", "\"$1\": "), peers.size());
        }));
    }
}
