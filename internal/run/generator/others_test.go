package generator

import (
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/test/must"
)

func openLoop() load.Profile {
	return load.Profile{Targets: []string{"http://127.0.0.1:8080/a b"[:23]}, Rate: 500, Connections: 16, Workers: 2,
		Timeout: 1500 * time.Millisecond, Warmup: 5 * time.Second, Measure: 20 * time.Second, Tail: 500 * time.Millisecond, ExpectSize: -1}
}

func closedLoop() load.Profile {
	p := openLoop()
	p.Rate, p.Workers = 0, 0
	return p
}

func logged(p load.Profile) load.Profile { p.HDRPath = "latency.hdr"; return p }

func TestOthersSayWhatTheyNeed(t *testing.T) {
	for _, g := range Others("") {
		n := g.Abilities().Needs
		if !n.AtOnce || (g.Name() == "wrk2") != (n.Warmup == 10*time.Second) {
			t.Errorf("%s needs %+v", g.Name(), n)
		}
	}
}

// TestCommands compares the complete command lines.
func TestCommands(t *testing.T) {
	grpc := openLoop()
	grpc.Protocol, grpc.Targets = "grpc", []string{"http://127.0.0.1:9000/grpc.health.v1.Health/Check"}
	h2 := openLoop()
	h2.Protocol = "http2"
	pinned := closedLoop()
	pinned.CPUs = []int{1, 3}
	host := closedLoop()
	host.Headers = []string{"Host: localhost", "host: shop.example"}
	post := closedLoop()
	post.RequestSize = 3
	const url = "http://127.0.0.1:8080/a"
	for _, c := range []struct {
		g    Generator
		p    load.Profile
		want string
	}{
		{external{traits: ohaTraits}, openLoop(), "oha --no-tui -c 16 -z 25500ms -m GET --redirect 0 --disable-compression -q 500 --latency-correction -t 1500ms --worker-threads 2 --output-format json " + url},
		{external{traits: ohaTraits}, logged(h2), "oha --no-tui -c 16 -z 25500ms -m GET --redirect 0 --disable-compression -q 500 --latency-correction -t 1500ms --http2 --worker-threads 2 --output-format csv " + url},
		{external{traits: wrkTraits}, pinned, "taskset -c 1,3 wrk -t 1 -c 16 -d 26s --timeout 2s --latency " + url},
		{external{traits: wrkTraits}, host, "wrk -t 1 -c 16 -d 26s --timeout 2s -H 'Host: shop.example' --latency " + url},
		{external{traits: wrk2Traits}, openLoop(), "wrk2 -t 2 -c 16 -d 31s --timeout 2s -R 500 -U -L " + url},
		{external{traits: vegetaTraits}, openLoop(), "vegeta -cpus=2 attack -format=json -targets=stdin -output=stdout -rate=500/1s -duration=25500ms -workers=16 -max-workers=16 -connections=16 -max-connections=16 -redirects=-1 -max-body=0 -timeout=1500ms -http2=false"},
		{external{traits: vegetaTraits}, h2, "vegeta -cpus=2 attack -format=json -targets=stdin -output=stdout -rate=500/1s -duration=25500ms -workers=16 -max-workers=16 -connections=16 -max-connections=16 -redirects=-1 -max-body=0 -timeout=1500ms -http2=true -h2c"},
		{external{traits: fortioTraits}, openLoop(), "GOMAXPROCS=2 fortio load -quiet -log-errors=false -allow-initial-errors -qps 500 -c 16 -t 25500ms -uniform -nocatchup=false -jitter=false -r 0.00001 -p 50,75,90,95,99,99.9,99.99 -json - -timeout 1500ms " + url},
		{external{traits: fortioTraits}, post, "fortio load -quiet -log-errors=false -allow-initial-errors -qps 0 -c 16 -t 25500ms -uniform -nocatchup=false -jitter=false -r 0.00001 -p 50,75,90,95,99,99.9,99.99 -json - -timeout 1500ms -payload-size 3 " + url},
	} {
		cmd, err := c.g.Command(c.p)
		if err != nil {
			t.Errorf("%s: %v", c.g.Name(), err)
			continue
		}
		if got := cmd.String(); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.g.Name(), got, c.want)
		}
	}
}

func TestWhatTravelsOnStandardInput(t *testing.T) {
	p := openLoop()
	p.RequestSize, p.Targets = 4, append(p.Targets, "http://127.0.0.2/?q='`${x}")
	cmd := must.Get(external{traits: vegetaTraits}.Command(p))(t)
	lines, _ := io.ReadAll(cmd.Stdin)
	if want := `{"body":"eHh4eA==","method":"POST","url":"http://127.0.0.1:8080/a"}`; !strings.HasPrefix(string(lines), want+"\n") {
		t.Errorf("targets %s", lines)
	}
}

func TestWhatAGeneratorCannotDoIsRefusedByName(t *testing.T) {
	change := func(f func(*load.Profile)) load.Profile { p := openLoop(); f(&p); return p }
	poisson := change(func(p *load.Profile) { p.Arrivals = "poisson" })
	started := change(func(p *load.Profile) { p.Start = time.Now() })
	grpc := change(func(p *load.Profile) { p.Protocol = "grpc" })
	for _, g := range Others("") {
		for _, p := range []load.Profile{poisson, started} {
			if _, err := g.Command(p); !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), g.Name()) {
				t.Errorf("%s: %v", g.Name(), err)
			}
		}
	}
	for _, c := range []struct {
		g    Generator
		p    load.Profile
		want string
	}{
		{external{traits: wrkTraits}, openLoop(), "keeps no rate"},
		{external{traits: wrk2Traits}, closedLoop(), "has no closed loop"},
		{external{traits: wrk2Traits}, change(func(p *load.Profile) { p.Rate = 0.5 }), "whole requests per second"},
		{external{traits: ohaTraits}, change(func(p *load.Profile) { p.Rate = 10.5 }), "whole requests per second"},
		{external{traits: ohaTraits}, change(func(p *load.Profile) { p.Protocol, p.Headers = "http2", []string{"Host: shop.example"} }), "over HTTP/2 it sends the URL's host"},
		{external{traits: ohaTraits}, grpc, "does not speak grpc, only http1, http2"},
		{external{traits: ohaTraits}, change(func(p *load.Profile) { p.RequestSize = 1 << 20 }), "does not fit its command line"},
		{external{traits: fortioTraits}, change(func(p *load.Profile) { p.Targets = append(p.Targets, p.Targets[0]) }), "one target, not 2"},
		{external{traits: fortioTraits}, poisson, "no poisson arrivals"},
		{external{traits: vegetaTraits}, started, "start the process at the instant"},
	} {
		_, err := c.g.Command(c.p)
		if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.g.Name(), err, c.want)
		}
	}
}

func TestAProfileThatIsNoneIsRefused(t *testing.T) {
	for _, change := range []func(*load.Profile){
		func(p *load.Profile) { p.Targets = nil },
		func(p *load.Profile) { p.Targets[0] = "--output=/etc/passwd" },
		func(p *load.Profile) { p.Targets[0] = "file:///etc/passwd" },
		func(p *load.Profile) { p.Targets[0] = "http://a/\n--x" },
		func(p *load.Profile) { p.Method = "GET /" },
		func(p *load.Profile) { p.Rate = math.Inf(1) },
		func(p *load.Profile) { p.Connections = 0 },
		func(p *load.Profile) { p.Measure = 0 },
	} {
		p := openLoop()
		change(&p)
		for _, g := range Others("") {
			if _, err := g.Command(p); err == nil {
				t.Errorf("%s takes %+v", g.Name(), p)
			}
		}
	}
}

// TestEveryLatencyHasAMeaning checks that every published latency has a definition.
func TestEveryLatencyHasAMeaning(t *testing.T) {
	for _, g := range golden {
		for _, l := range parseFile(t, g.parser, g.file).Latencies {
			if l.Meaning == "" && l.Of != ofFirstByte {
				t.Errorf("%s: latency %q of %s has no meaning", g.file, l.Of, l.Source)
			}
		}
	}
	for _, g := range Others("") {
		if Meaning(g.Name(), ofService) == "" {
			t.Errorf("%s has no line", g.Name())
		}
	}
}

func TestUnits(t *testing.T) {
	for _, c := range []struct {
		text  string
		units map[string]float64
		want  float64
	}{
		{"250.00us", timeUnits, 250e-6}, {"1.31ms", timeUnits, 1.31e-3}, {"2.00s", timeUnits, 2}, {"5.00m", timeUnits, 300},
		{"1.5h", timeUnits, 5400}, {"12µs", timeUnits, 12e-6}, {"7ns", timeUnits, 7e-9}, {"0us", timeUnits, 0},
		{"3.24k", countUnits, 3240}, {"71566", countUnits, 71566}, {"1.2M", countUnits, 1.2e6}, {"2G", countUnits, 2e9},
		{"4.16MB", sizeUnits, 4.16 * (1 << 20)}, {"1KB", sizeUnits, 1024}, {"12B", sizeUnits, 12}, {"1.5Mi", sizeUnits, 1.5 * (1 << 20)},
		{"2Ki", sizeUnits, 2048}, {"1GiB", sizeUnits, 1 << 30}, {"8K", sizeUnits, 8192},
	} {
		if got, err := Quantity(c.text, c.units); err != nil || math.Abs(got-c.want) > 1e-9*c.want {
			t.Errorf("%s is %v, %v, want %v", c.text, got, err, c.want)
		}
	}
	for _, text := range []string{"", "-nanus", "nan", "1.2.3s", "12 parsecs", "s", "--1s", "1e400s"} {
		if got, err := Quantity(text, timeUnits); err == nil {
			t.Errorf("%q is %v", text, got)
		}
	}
}

// TestChecksAreRefused checks that external generators refuse response checks.
// Ignoring a check would let failed responses pass.
func TestChecksAreRefused(t *testing.T) {
	for _, g := range Others("") {
		p := load.Profile{Targets: []string{"http://127.0.0.1/"}, Rate: 100, Arrivals: "constant", Connections: 4, Measure: time.Second, ExpectSize: -1, JSONLacks: []string{"errors"}}
		if _, err := g.Command(p); !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "does not check") {
			t.Errorf("%s: %v", g.Name(), err)
		}
	}
}

// The texts of wrk and wrk2 are alike, and their latencies are not.
func TestWrkIsNotWrk2(t *testing.T) {
	for _, test := range []struct{ parser, file, of string }{{"wrk", "wrk2-4.0.0.txt", "wrk2"}, {"wrk2", "wrk-4.1.0.txt", "wrk"}} {
		f, err := os.Open(filepath.Join("testdata", test.file))
		must.OK(t, err)
		_, err = parsers[test.parser](f)
		f.Close()
		must.Fail(t, err, "this is the output of "+test.of, test.file, test.parser)
	}
}
