package cli

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/internal/load"
)

// writeLoadSummary prints the result of a load as text, with the verdict and its reasons.
func writeLoadSummary(w io.Writer, p *load.Profile, r *load.Report) error {
	t := &strings.Builder{}
	fmt.Fprintf(t, "%s\n%s\n\n", strings.Join(p.Targets, "\n"), describeLoad(p, r))
	measured := r.MeasureEnd.Sub(r.MeasureStart)
	fmt.Fprintf(t, "requests   %d in %v: %s/s", r.Completed, measured.Round(time.Millisecond), figure(r.Rate))
	if p.Rate > 0 && p.Arrivals != load.Replay {
		fmt.Fprintf(t, " of %s/s asked for", figure(p.Rate))
	}
	fmt.Fprintf(t, "\noutcome    %s\n", counts(classWords(p, r), r.Requests))
	if r.Dropped > 0 {
		fmt.Fprintf(t, "dropped    %d that were due while every connection was busy\n", r.Dropped)
	}
	if len(r.Statuses) > 0 {
		fmt.Fprintf(t, "statuses   %s\n", counts(r.Statuses, r.Requests))
	}
	if len(r.Errors) > 0 {
		fmt.Fprintf(t, "errors     %s\n", counts(r.Errors, r.Requests))
	}
	if p.Follow > 0 {
		fmt.Fprintf(t, "redirects  %d followed, %s a request\n", r.Redirects, figure(float64(r.Redirects)/float64(max(1, r.Requests))))
	}
	if p.GRPCStream {
		fmt.Fprintf(t, "messages   %d, %s a call\n", r.Messages, figure(float64(r.Messages)/float64(max(1, r.Requests))))
	}
	t.WriteByte('\n')
	writeLatencies(t, r)
	fmt.Fprintf(t, "\ntraffic    %s received, %s sent\n", bytesText(r.BytesIn), bytesText(r.BytesOut))
	if r.Reconnects+r.IdleClosed > 0 {
		fmt.Fprintf(t, "reconnects %d, of them %d after the server closed an idle connection\n", r.Reconnects, r.IdleClosed)
	}
	if len(r.Addresses) > 1 {
		fmt.Fprintf(t, "addresses  %s\n", counts(r.Addresses, sum(r.Addresses)))
	}
	if r.TLSResumed > 0 {
		fmt.Fprintf(t, "handshakes %d, of them %d resumed a session\n", r.TLSMS.Count, r.TLSResumed)
	}
	fmt.Fprintf(t, "generator  %s s of CPU (%.1f %% of a core), busiest thread %.1f %%\n",
		figure(r.CPUSeconds), percent(r.CPUSeconds, measured.Seconds()), 100*r.ThreadCPURatio)
	if h := r.Host; h.CPUPressure > 0 || h.StealRatio > 0 {
		fmt.Fprintf(t, "host       tasks waited for a CPU %.1f %% of the time, the hypervisor took %.1f %%\n", 100*h.CPUPressure, 100*h.StealRatio)
	}
	fmt.Fprintf(t, "verdict    %s\n", strings.ReplaceAll(r.Verdict, "; ", "\n           "))
	for _, warning := range r.Warnings {
		if !strings.Contains(r.Verdict, warning) {
			fmt.Fprintf(t, "warning    %s\n", warning)
		}
	}
	_, err := io.WriteString(w, t.String())
	return err
}

func describeLoad(p *load.Profile, r *load.Report) string {
	loop := "closed loop (capacity; the times are service times under saturation)"
	if r.Loop == "open" {
		loop = fmt.Sprintf("open loop, %s arrivals", r.Arrivals)
	}
	connections := console.Counted(p.Connections, "connection")
	if name := map[string]string{"http2": "HTTP/2", "grpc": "gRPC"}[r.Protocol]; name != "" {
		connections = fmt.Sprintf("%s, %s of up to %s", name, connections, console.Counted(p.Streams, "stream"))
	}
	if r.TLS != "" {
		connections += " over " + r.TLS
	}
	return fmt.Sprintf("%s, %s, %s, warm-up %v", loop, connections, console.Counted(max(1, p.Workers), "worker"), p.Warmup)
}

func writeLatencies(w io.Writer, r *load.Report) {
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "\tmean\tp50\tp90\tp99\tp99.9\tmax\t\t")
	row := func(name string, q load.Quantiles, from string) {
		if q.Count == 0 {
			return
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t\t%s\n", name,
			figure(q.Mean), figure(q.P50), figure(q.P90), figure(q.P99), figure(q.P999), figure(q.Max), from)
	}
	if r.Loop == "open" {
		row("response ms", r.ResponseMS, "2xx, from the intended start")
	}
	row("floor ms", r.FloorMS, "response time of a server that does nothing, in this process")
	row("service ms", r.ServiceMS, "2xx, from the actual send")
	row("first byte ms", r.TTFBMS, "2xx, from the actual send")
	row("first message ms", r.FirstMessageMS, "gRPC status 0, from the actual send to the whole of it")
	row("resolve ms", r.ResolveMS, "look-ups of names, of the whole run")
	row("connect ms", r.ConnectMS, "connections of the whole run")
	row("TLS ms", r.TLSMS, "handshakes of the whole run")
	row("lateness µs", r.LatenessUS, "actual send after the intended start")
	t.Flush()
}

func classWords(p *load.Profile, r *load.Report) map[string]int64 {
	success := string(load.OK)
	if len(p.ExpectStatus) > 0 {
		success = strings.Join(p.ExpectStatus, ", ") + " as expected"
	}
	return map[string]int64{
		success:             r.Classes[load.OK],
		"other answers":     r.Classes[load.Status],
		"time-outs":         r.Classes[load.Timeout],
		"connection errors": r.Classes[load.Conn],
	}
}

// counts lists what occurred, the most frequent first, with its share of all.
func counts(of map[string]int64, all int64) string {
	names := slices.SortedFunc(maps.Keys(of), func(a, b string) int {
		if of[a] != of[b] {
			return int(of[b] - of[a])
		}
		return strings.Compare(a, b)
	})
	var words []string
	for _, name := range names {
		if n := of[name]; n > 0 {
			words = append(words, fmt.Sprintf("%s: %d (%s %%)", name, n, figure(percent(float64(n), float64(all)))))
		}
	}
	if len(words) == 0 {
		return "none"
	}
	return strings.Join(words, ", ")
}

func sum(of map[string]int64) (all int64) {
	for _, n := range of {
		all += n
	}
	return all
}

func percent(part, whole float64) float64 {
	if whole == 0 {
		return 0
	}
	return 100 * part / whole
}

// figure prints four significant digits, without an exponent.
func figure(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v < 1:
		return fmt.Sprintf("%.4f", v)
	case v < 10:
		return fmt.Sprintf("%.3f", v)
	case v < 100:
		return fmt.Sprintf("%.2f", v)
	case v < 1000:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}

func bytesText(n int64) string {
	const step = 1024
	v := float64(n)
	for _, unit := range []string{"B", "KiB", "MiB", "GiB"} {
		if v < step {
			return figure(v) + " " + unit
		}
		v /= step
	}
	return figure(v) + " TiB"
}
