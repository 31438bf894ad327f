package generator

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/base/companion"
	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/base/proc"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/record"
	"github.com/tare-mesh/tare/internal/result"
)

// Generators returns all load generators.
func Generators() []Generator {
	return append([]Generator{Tare{Agent: AgentPath()}}, Others(GeneratorsDir())...)
}

// AgentPath returns the path of the tare-agent beside the running program, otherwise of the one on PATH.
func AgentPath() string { return companion.Path(agentProgram) }

const agentProgram = "tare-agent"

// CheckAgent refuses a tare-agent on PATH of another version than this program's. One beside this program is of the same build, and a
// missing one is found out later.
func CheckAgent(ctx context.Context, version string) error {
	path, beside := companion.Locate(agentProgram)
	if beside || path == agentProgram {
		return nil
	}
	const fix = "put tare-agent of the same release beside tare: `make build` and `go install` of cmd/... make both"
	out, err := exec.CommandContext(ctx, path, "--version").Output()
	if err != nil {
		return hint.New(fix, "%s --version: %w", path, err)
	}
	found := strings.TrimSpace(strings.TrimPrefix(string(out), agentProgram))
	if found != version {
		return hint.New(fix, "version mismatch: tare is %s, %s is %s", version, path, printable.Clip(printable.Line(found), 60))
	}
	return nil
}

// Tare is the built-in engine. It runs in its own process and does not share
// threads with the harness.
type Tare struct {
	// Agent is the path of the tare-agent program.
	Agent string
}

// Name is the generator's name in experiment files.
func (Tare) Name() string { return "tare" }

func (Tare) Abilities() Abilities { return Abilities{Holds: true} }

// Command runs `tare-agent load` in the directory of the interval log, with p as
// JSON on standard input.
func (t Tare) Command(p load.Profile) (proc.Command, error) {
	if err := p.Validate(); err != nil {
		return proc.Command{}, fmt.Errorf("load profile for tare: %w", err)
	}
	dir := ""
	if p.HDRPath != "" {
		dir, p.HDRPath = filepath.Dir(p.HDRPath), filepath.Base(p.HDRPath)
		if p.AnswersPath != "" {
			p.AnswersPath = filepath.Base(p.AnswersPath) // beside the log
		}
	}
	b, err := json.Marshal(p)
	return proc.Command{Path: t.Agent, Args: []string{"load"}, Dir: dir, Stdin: bytes.NewReader(b)}, hint.Prefix(err, "write load profile")
}

// Parse reads the engine's lines ([load.Line]). The last line is the report.
func (Tare) Parse(stdout io.Reader, p load.Profile, progress func(load.Progress)) (result.Load, error) {
	report, err := load.NewLines(stdout).Report(progress)
	if err != nil {
		return result.Load{}, err
	}
	return fromReport(report, p), nil
}

func fromReport(r *load.Report, p load.Profile) result.Load {
	l := result.Load{
		Generator: "tare", Version: r.Version, Loop: r.Loop, Arrivals: r.Arrivals,
		Start: r.MeasureStart, End: r.MeasureEnd,
		AskedRate: p.Rate, Connections: p.Connections,
		Intended: r.Intended, Sent: r.Sent, Completed: r.Completed, Retried: r.Retried, BacklogStart: &r.BacklogStart, BacklogEnd: &r.BacklogEnd,
		Classes:  make(map[string]int64, len(r.Classes)),
		Statuses: maps.Clone(r.Statuses), Errors: maps.Clone(r.Errors),
		Opened:  r.Opened,
		BytesIn: r.BytesIn, BytesOut: r.BytesOut,
		WarmupSeconds:  seconds(r.MeasureStart.Sub(r.Started)),
		MeasureSeconds: seconds(r.MeasureEnd.Sub(r.MeasureStart)),
		SliceCounts:    r.Slices,
		CPUSeconds:     &r.CPUSeconds, ThreadCPURatio: &r.ThreadCPURatio,
		Verdict: r.Verdict, Warnings: r.Warnings, Figures: r.Figures(),
	}
	if w := r.Whole; w != nil {
		l.Whole = &result.Whole{Sent: w.Sent, Unanswered: w.Unanswered, Failed: w.Failed, Connections: w.Connections, Unsure: w.Retried}
	}
	if s := p.Slices; s != nil {
		l.Slices = &result.OwnSlices{Count: len(r.Slices), LengthSeconds: s.Length.Seconds(), GuardSeconds: s.Guard.Seconds()}
	}
	for class, n := range r.Classes {
		l.Classes[string(class)] = n
	}
	if p.HDRPath != "" && record.Exact(p.Warmup, p.Measure) && r.MeasureEnd.Sub(r.MeasureStart) == p.Measure {
		l.Recorded = r.Classes[load.OK]
	}
	if r.Host.CPUPressure > 0 {
		l.CPUPressure = &r.Host.CPUPressure
	}
	for path, times := range r.Routes {
		if l.Routes == nil {
			l.Routes = map[string]result.RouteTimes{}
		}
		l.Routes[path] = result.RouteTimes{Requests: times.Requests, MeanMS: times.MeanMS, Failed: times.Failed,
			P50MS: times.ResponseMS.P50, P90MS: times.ResponseMS.P90, P99MS: times.ResponseMS.P99}
	}
	if r.MessageGapMS.Count > 0 {
		l.Stream = &result.Stream{Messages: r.Messages, FirstByteMS: messageTimes(r.TTFBMS), FirstMessageMS: messageTimes(r.FirstMessageMS), GapMS: messageTimes(r.MessageGapMS)}
	}
	if r.LatenessUS.Count > 0 {
		l.LatenessP50US, l.LatenessP99US, l.LatenessMaxUS = &r.LatenessUS.P50, &r.LatenessUS.P99, &r.LatenessUS.Max
		l.OwnLatenessP99US = &r.OwnLatenessUS.P99
	}
	return l
}

func messageTimes(q load.Quantiles) result.MessageTimes {
	return result.MessageTimes{Count: q.Count, Mean: q.Mean, P50: q.P50, P90: q.P90, P99: q.P99}
}

// seconds rounds d to the microsecond, the precision of time stamps in JSON.
func seconds(d time.Duration) float64 { return d.Round(time.Microsecond).Seconds() }
