package engine

import (
	"bufio"
	"crypto/tls"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/test/must"
	"github.com/tare-mesh/tare/test/part"
)

// aloneEnv makes the test program a server: "http1 dir", "http2 dir" or "grpc dir".
// The optional dir has its certificate. The server prints its address and serves
// until its standard input ends.
const aloneEnv = "TARE_TEST_SERVER"

// The race detector of make race alone has these tests: at a low priority beside clusters some miss a deadline or rate, and
// protocols share the engine's goroutines.
var _ = part.Of("race", TestBodiesOverTLS, TestBodyChecks, TestDeadAddress, TestDroppedConnectionsAreInTheAnswers, TestEcho, TestEchoFailures,
	TestEchoOverTLS, TestEchoRefusesWhatItCannotDo, TestGRPC, TestGRPCLargeRequestStream, TestGRPCOverMutualTLS, TestGRPCRequestStreams,
	TestGRPCStreaming, TestGRPCStreamsOverAgedConnections, TestHTTP2SmallServer, TestHTTP2StatusesAndTimeouts, TestIdleCloseIsAClassOfItsOwn,
	TestNameThatCannotBeResolved, TestNewConnectionsPerSecond, TestPrewarmEnds, TestServerThatHoldsFewerConnections,
	TestSlowCallsAtMaxConnectionAge, TestStatusAndJSONChecks, TestTimeoutCountsFromTheSend, TestUnixSocket, TestWebSocketEcho,
	TestWebSocketFailures, TestWebSocketOfEachRequest, TestWebSocketOneWay, TestWebSocketPings, TestWebSocketStream, TestWebSocketThroughEnvoy,
	TestWebSocketTimeout)

func TestMain(m *testing.M) {
	what := os.Getenv(aloneEnv)
	if what == "" {
		// Most loads of these tests only wait: many at once take no longer than one.
		flag.Parse()
		if err := flag.Set("test.parallel", "8"); err != nil {
			panic(err)
		}
		os.Exit(part.M{M: m}.Run())
	}
	alone := serveAlone
	if strings.HasPrefix(what, poorPrefix) {
		alone = runPoor
	}
	if err := alone(what); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serveAlone(what string) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	protocol, dir, secured := strings.Cut(what, " ")
	var config *tls.Config
	if secured {
		cert, err := tls.LoadX509KeyPair(dir+"/server.pem", dir+"/server.key")
		if err != nil {
			return err
		}
		config = &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2", "http/1.1"}}
		if protocol == load.ProtocolHTTP1 {
			config.NextProtos = []string{"http/1.1"}
		}
	}
	switch {
	case protocol == load.ProtocolGRPC:
		options := []grpc.ServerOption{}
		if secured {
			options = append(options, grpc.Creds(credentials.NewTLS(config)))
		}
		s := grpc.NewServer(options...)
		grpc_health_v1.RegisterHealthServer(s, health.NewServer())
		go func() { _ = s.Serve(l) }()
	default:
		s := &http.Server{TLSConfig: config, Protocols: new(http.Protocols), Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`"hello"`))
		})}
		s.Protocols.SetHTTP1(protocol == load.ProtocolHTTP1)
		s.Protocols.SetHTTP2(protocol == load.ProtocolHTTP2 && secured)
		s.Protocols.SetUnencryptedHTTP2(protocol == load.ProtocolHTTP2 && !secured)
		if secured {
			go func() { _ = s.ServeTLS(l, "", "") }()
		} else {
			go func() { _ = s.Serve(l) }()
		}
	}
	fmt.Println(l.Addr())
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// startAlone runs a server in its own process, whose allocations are not counted,
// and returns its URL. A nil authority: without TLS.
func startAlone(t testing.TB, protocol string, a *authority) string {
	t.Helper()
	self := must.Get(os.Executable())(t)
	cmd := exec.Command(self)
	scheme, what := "http://", protocol
	if a != nil {
		scheme, what = "https://", protocol+" "+a.dir
	}
	cmd.Env = append(os.Environ(), aloneEnv+"="+what)
	cmd.Stderr = os.Stderr
	in := must.Get(cmd.StdinPipe())(t)
	out := must.Get(cmd.StdoutPipe())(t)
	must.OK(t, cmd.Start())
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	address := must.Get(bufio.NewReader(out).ReadString('\n'))(t)
	url := scheme + strings.TrimSpace(address) + "/"
	if protocol == load.ProtocolGRPC {
		url += "grpc.health.v1.Health/Check"
	}
	return url
}

// allocations returns the allocations per request. It subtracts a short load from a
// long one, so that allocations per load are not counted.
func allocations(t testing.TB, p load.Profile) float64 {
	t.Helper()
	measure := func(requests int64) float64 {
		p.Requests, p.Measure = requests, time.Minute
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r := mustRun(t, p)
		runtime.ReadMemStats(&after)
		if r.Classes[load.OK] != requests {
			t.Fatalf("%d of %d requests succeeded: %v", r.Classes[load.OK], requests, r.Errors)
		}
		return float64(after.Mallocs - before.Mallocs)
	}
	const few, many = 1000, 11_000
	measure(few) // what the process does once
	return (measure(many) - measure(few)) / (many - few)
}

// TestAllocationsOfEveryProtocol checks that requests do not allocate in any protocol.
// Over TLS, crypto/tls allocates 24 bytes per record for its limited reader, and on a busy machine some answers of the
// server are two records. A request that allocates by itself would need one more.
func TestAllocationsOfEveryProtocol(t *testing.T) {
	long(t) // and the race detector, which runs with the short tests, allocates too
	a := serverAuthority(t)
	for _, protocol := range []string{load.ProtocolHTTP1, load.ProtocolHTTP2, load.ProtocolGRPC} {
		for _, secured := range []*authority{nil, a} {
			name, limit := protocol, 0.05
			if secured != nil {
				name, limit = name+" over TLS", 1.5
			}
			t.Run(name, func(t *testing.T) {
				p := profileH2(startAlone(t, protocol, secured))
				if secured != nil {
					p = secured.trusting(p)
				}
				p.Protocol, p.Warmup = protocol, 0
				if protocol != load.ProtocolGRPC { // neither do checks of text
					p.ExpectStatus, p.BodyHas = []string{"200"}, []string{"hello"}
				}
				for _, rate := range []float64{0, 10_000} {
					p.Rate = rate
					// Timers of a longer run on a busy machine allocate too. A request that allocates does so in every attempt.
					per := allocations(t, p)
					for attempt := 1; attempt < 5 && per > limit; attempt++ {
						per = min(per, allocations(t, p))
					}
					t.Logf("rate %v: %.4f allocations a request", rate, per)
					if per > limit {
						t.Errorf("rate %v: %.3f allocations a request, limit %v", rate, per, limit)
					}
				}
			})
		}
	}
}
