package cli

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/tare-mesh/tare/internal/base/fetch"
	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/cli/health"
	"github.com/tare-mesh/tare/internal/run/generator"
	"github.com/tare-mesh/tare/internal/run/meter"
)

// Limits of a quiet machine. Each is far below the overhead of a sidecar.
const (
	busyOthers     = 0.10 // cores
	stolenShare    = 0.01
	pressureShare  = 0.10
	lateWaking     = 200 * time.Microsecond // p99
	enoughFiles    = 1024
	plentyOfFiles  = 8192
	namesOfTheBusy = 3
)

func lookMeters(_ context.Context, x *examined) health.Finding {
	if _, err := x.line.program.NewMeter(); err != nil {
		return health.Finding{Verdict: health.Fail, Detail: err.Error(), Hint: hint.Of(err)}
	}
	return health.Finding{Detail: "processes can be read to the nanosecond"}
}

func lookAgent(ctx context.Context, x *examined) health.Finding {
	path, err := exec.LookPath(generator.AgentPath())
	if err = cmp.Or(err, generator.CheckAgent(ctx, x.line.program.Version)); err != nil {
		return health.Finding{Verdict: health.Fail, Detail: err.Error(), Hint: hint.Of(err)}
	}
	return health.Finding{Detail: path}
}

// lookAddresses listens on several addresses in 127.0.0.0/8, where each pod of a run has its own.
func lookAddresses(context.Context, *examined) health.Finding {
	for _, ip := range []string{"127.0.0.1", "127.83.1.2", "127.254.254.254"} {
		l, err := net.Listen("tcp", net.JoinHostPort(ip, "0"))
		if err != nil {
			return health.Finding{Verdict: health.Fail, Detail: err.Error()}
		}
		_ = l.Close()
	}
	return health.Finding{Detail: "127.0.0.0/8 can be listened on"}
}

func lookFiles(context.Context, *examined) health.Finding {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return health.Finding{Detail: "unknown: " + err.Error()}
	}
	f := health.Finding{Detail: fmt.Sprintf("%d a process", uint64(l.Cur))}
	switch {
	case uint64(l.Cur) < enoughFiles:
		f.Verdict = health.Fail
	case uint64(l.Cur) < plentyOfFiles:
		f.Verdict = health.Warn
	}
	return f
}

func lookProcessors(context.Context, *examined) health.Finding {
	n := meter.Host().CPUs
	return health.WarnIf(n < health.FewProcessors, "%s", printable.Counted(n, "CPU"))
}

func lookLimit(_ context.Context, x *examined) health.Finding {
	f := x.fitness
	if x.unread != nil {
		return unknown(x)
	}
	held := ""
	if f.Throttled != nil && *f.Throttled > 0 {
		held = fmt.Sprintf("; throttled %d times during the check", *f.Throttled)
	}
	if f.Quota == nil {
		return health.WarnIf(held != "", "none%s", held)
	}
	return health.WarnIf(held != "" || *f.Quota < float64(meter.Host().CPUs), "%.2g cores%s", *f.Quota, held)
}

func lookGovernor(_ context.Context, x *examined) health.Finding {
	g := meter.Host().Governor
	if g == "" {
		return unknown(x)
	}
	return health.WarnIf(g != "performance", "%s", g)
}

func lookLoad(_ context.Context, x *examined) health.Finding {
	if x.fitness.Load == nil {
		return unknown(x)
	}
	return health.WarnIf(*x.fitness.Load > 0.5*float64(meter.Host().CPUs), "%.2f over the last minute", *x.fitness.Load)
}

func lookOthers(_ context.Context, x *examined) health.Finding {
	if x.unread != nil {
		return unknown(x)
	}
	total := 0.0
	var who []string
	for i, p := range x.fitness.Busy {
		total += p.Cores
		if i < namesOfTheBusy {
			who = append(who, fmt.Sprintf("%s (%d) %.2f", p.Name, p.PID, p.Cores))
		}
	}
	if who == nil {
		return health.Finding{Detail: "none that uses CPU"}
	}
	return health.WarnIf(total > busyOthers, "%.2f cores: %s", total, strings.Join(who, ", "))
}

func lookSteal(_ context.Context, x *examined) health.Finding {
	if x.fitness.Steal == nil {
		return unknown(x)
	}
	return health.WarnIf(*x.fitness.Steal > stolenShare, "%.1f %% of CPU", 100**x.fitness.Steal)
}

func lookPressure(_ context.Context, x *examined) health.Finding {
	if x.fitness.Pressure == nil {
		return unknown(x)
	}
	return health.WarnIf(*x.fitness.Pressure > pressureShare, "some task waited for a CPU %.1f %% of the time", 100**x.fitness.Pressure)
}

func lookLateness(_ context.Context, x *examined) health.Finding {
	p50, ok := x.fitness.LatenessAt(0.5)
	if !ok {
		return unknown(x)
	}
	p99, _ := x.fitness.LatenessAt(0.99)
	most, _ := x.fitness.LatenessAt(1)
	return health.WarnIf(p99 > lateWaking, "p50 %v, p99 %v, max %v, of %d wake-ups",
		p50.Round(time.Microsecond), p99.Round(time.Microsecond), most.Round(time.Microsecond), len(x.fitness.Lateness))
}

// unknown is the finding for a fact that this system does not report.
func unknown(x *examined) health.Finding {
	if x.unread != nil {
		return health.Finding{Verdict: health.Warn, Detail: x.unread.Error()}
	}
	return health.Finding{Detail: "unknown on this system"}
}

// lookFor finds a program as a run does, but downloads nothing.
func lookFor(ctx context.Context, p fetch.Program) health.Finding {
	found, err := p.Find(ctx, fetch.Options{Offline: true})
	if err != nil {
		return health.Finding{Verdict: health.Absent, Detail: "not installed", Hint: hint.Of(err)}
	}
	from := found.Source
	if from == "cache" {
		if home, err := os.UserHomeDir(); err == nil {
			from = strings.Replace(found.Path, home, "~", 1)
		}
	}
	return health.Finding{Detail: found.Version + ", from " + from}
}
