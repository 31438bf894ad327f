package report

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/result"
)

// attack is the load of a treatment, summed over its valid trials.
type attack struct {
	trials             int
	requests, ok       int64
	bytesIn, bytesOut  int64
	measured           time.Duration
	times              *hdrhistogram.Histogram // response times of 2xx, ns; nil without a log
	statuses, failures map[string]int64
}

// writeVegeta writes the load of each treatment as `vegeta report` does, version 12.12. Its words are of that program.
func writeVegeta(w io.Writer, a answer.Analysis) error {
	all, err := attacks(a.Dir)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	for _, t := range a.Report.Treatments {
		if one := all[t.ID]; one != nil {
			fmt.Fprintf(&b, "%s: %s\n\n", t.ID, printable.Counted(one.trials, "valid trial"))
			if err := one.write(&b); err != nil {
				return fmt.Errorf("write the load as vegeta: %w", err)
			}
			b.WriteByte('\n')
		}
	}
	if len(all) == 0 {
		b.WriteString("no valid trial has a load\n")
	}
	b.WriteString("Latencies are of answers with 2xx, from the intended start. Bytes include headers. Wait is not measured.\n")
	_, err = io.WriteString(w, printable.Text(b.String()))
	return err
}

// attacks are the loads by treatment.
func attacks(d *result.Dir) (map[string]*attack, error) {
	records, err := d.Records()
	if err != nil {
		return nil, err
	}
	all := map[string]*attack{}
	for i := range records {
		r := &records[i]
		if !r.Valid || r.Load == nil {
			continue
		}
		if all[r.Treatment] == nil {
			all[r.Treatment] = &attack{statuses: map[string]int64{}, failures: map[string]int64{}}
		}
		if err := all[r.Treatment].add(d, r); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (k *attack) add(d *result.Dir, r *result.Record) error {
	h, err := figures.ResponseTimes(d, r)
	if err != nil {
		return err
	}
	if k.times == nil {
		k.times = h
	} else if h != nil {
		k.times.Merge(h)
	}
	l := r.Load
	k.trials++
	k.requests, k.ok = k.requests+l.Sent, k.ok+l.Classes[string(load.OK)]
	k.bytesIn, k.bytesOut = k.bytesIn+l.BytesIn, k.bytesOut+l.BytesOut
	k.measured += time.Duration(l.MeasureSeconds * float64(time.Second))
	for status, n := range l.Statuses {
		k.statuses[status] += n
	}
	for failure, n := range l.Errors {
		k.failures[failure] += n
	}
	return nil
}

func (k *attack) write(w io.Writer) error {
	per := func(n int64, of float64) float64 {
		if of == 0 {
			return 0
		}
		return float64(n) / of
	}
	requests, seconds := float64(k.requests), k.measured.Seconds()
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintf(tw, "Requests\t[total, rate, throughput]\t%d, %.2f, %.2f\n", k.requests, per(k.requests, seconds), per(k.ok, seconds))
	fmt.Fprintf(tw, "Duration\t[total, attack, wait]\t%v, %v, 0s\n", k.measured, k.measured)
	fmt.Fprintf(tw, "Latencies\t[min, mean, 50, 90, 95, 99, max]\t%s\n", k.latencies())
	fmt.Fprintf(tw, "Bytes In\t[total, mean]\t%d, %.2f\n", k.bytesIn, per(k.bytesIn, requests))
	fmt.Fprintf(tw, "Bytes Out\t[total, mean]\t%d, %.2f\n", k.bytesOut, per(k.bytesOut, requests))
	fmt.Fprintf(tw, "Success\t[ratio]\t%.2f%%\n", 100*per(k.ok, requests))
	fmt.Fprintf(tw, "Status Codes\t[code:count]\t%s\n", counted(k.statuses, ":", "  "))
	if err := tw.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "Error Set:\n%s", lines(counted(k.failures, ": ", "\n")))
	return err
}

// latencies are seven durations, to the microsecond; 0s without a log.
func (k *attack) latencies() string {
	all := make([]time.Duration, 7)
	if h := k.times; h != nil && h.TotalCount() > 0 {
		all[0], all[1], all[6] = time.Duration(h.Min()), time.Duration(h.Mean()), time.Duration(h.Max())
		for i, q := range []float64{50, 90, 95, 99} {
			all[2+i] = time.Duration(h.ValueAtQuantile(q))
		}
	}
	return strings.Join(printable.Texts(all, func(d time.Duration) string { return d.Round(time.Microsecond).String() }), ", ")
}

func counted(of map[string]int64, between, after string) string {
	texts := printable.Texts(slices.Sorted(maps.Keys(of)), func(name string) string { return fmt.Sprintf("%s%s%d", name, between, of[name]) })
	return strings.Join(texts, after)
}

func lines(text string) string {
	if text == "" {
		return ""
	}
	return text + "\n"
}
