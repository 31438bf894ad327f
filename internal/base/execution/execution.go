// Package execution executes programs that end, one after another, and reads what each execution used.
package execution

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
	"unicode"

	"github.com/prometheus/procfs"
	"golang.org/x/perf/benchfmt"

	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/base/proc"
)

// Program is a program that ends.
type Program struct {
	Command []string  `json:"command"`
	Env     []string  `json:"env,omitempty"` // added, "K=V"
	Dir     string    `json:"dir,omitempty"` // working directory
	Beside  []Program `json:"beside,omitempty"`
}

// Series are executions of programs in turn. The index after the last program is the empty program, see [Static]. Its
// executions have the start and the end of any process, and the error of reading them.
type Series struct {
	Programs []Program     `json:"programs"`
	Rows     [][]int       `json:"rows"`              // each has every program once, and perhaps the empty one; they are repeated
	Warmup   int           `json:"warmup,omitempty"`  // rows before the first reading
	Prepare  []string      `json:"prepare,omitempty"` // command before each execution
	Input    string        `json:"input,omitempty"`   // file on standard input
	Time     time.Duration `json:"time"`              // about, of all rows
	Limit    time.Duration `json:"limit"`             // of an execution, after which it is killed
}

// Reading is the usage of one execution. Processes that the program waited for are included.
type Reading struct {
	Start      time.Time                     `json:"start"`                // when it began
	Wall       int64                         `json:"wall"`                 // time from its start to its end, ns
	User       int64                         `json:"user"`                 // user CPU time, ns
	System     int64                         `json:"system"`               // system CPU time, ns
	Peak       int64                         `json:"peak"`                 // peak resident memory of its largest process, bytes
	Floor      int64                         `json:"floor"`                // memory of the program that starts it, bytes; no peak below it is known
	Output     int64                         `json:"output"`               // bytes on standard output
	Exit       int                           `json:"exit,omitempty"`       // exit code, or 128 and the signal that ended it
	Last       []string                      `json:"last,omitempty"`       // last lines of a failed execution
	Benchmarks map[string]map[string]float64 `json:"benchmarks,omitempty"` // figures of Go benchmarks on standard output, by name and unit (`sec/op`)
}

// Failure describes a failed execution in a line.
func (r Reading) Failure() string {
	s := fmt.Sprintf("exit code %d", r.Exit)
	if len(r.Last) == 0 {
		return s + ", without a message"
	}
	return s + ", last lines: " + printable.Text(strings.Join(r.Last, " | "))
}

const (
	// MaxRows bounds the executions of a program in a series.
	MaxRows = 200
	// keptLines of keptText characters are kept of the end of the output of a failed execution, which is in the last keptBytes.
	keptLines, keptText, keptBytes = 3, 200, 1 << 10
	// benchmarkBytes bounds the output in which benchmarks are found.
	benchmarkBytes = 1 << 20
	// floorReserve bounds the growth of this program's memory between its reading and the start of a child.
	floorReserve = 1 << 20
	// grace is the time of a process beside the program to end.
	grace = 2 * time.Second
)

// Run executes the series. Its time ends it between two rows: with the number of rows that is nearest, and at least one.
func (s Series) Run(ctx context.Context, emit func(program int, r Reading) error) error {
	path, remove, ok := emptyProgram()
	defer remove()
	bare, empty := Series{Limit: s.Limit}, Program{Command: []string{path}}
	if ok { // the first is not read: its file was not in memory, or cannot be executed here
		r, err := bare.once(ctx, empty)
		ok = err == nil && r.Exit == 0
	}
	row := func(n int, emit func(int, Reading) error) error {
		for _, i := range s.Rows[n%len(s.Rows)] {
			of, program := s, empty
			switch {
			case i < len(s.Programs):
				program = s.Programs[i]
			case !ok:
				continue
			default:
				of = bare
			}
			r, err := of.once(ctx, program)
			if err != nil {
				return err
			}
			if err := emit(i, r); err != nil {
				return err
			}
		}
		return nil
	}
	for n := range s.Warmup {
		if err := row(n, func(int, Reading) error { return nil }); err != nil {
			return err
		}
	}
	begun := time.Now()
	for n := range MaxRows {
		if passed := time.Since(begun); n > 0 && passed+passed/time.Duration(2*n) >= s.Time {
			return nil
		}
		if err := row(n, emit); err != nil {
			return err
		}
	}
	return nil
}

// once prepares and executes a program.
func (s Series) once(ctx context.Context, program Program) (r Reading, err error) {
	if len(s.Prepare) > 0 {
		p, err := proc.Start(ctx, Program{Command: s.Prepare, Env: program.Env, Dir: program.Dir}.command())
		if err == nil {
			err = await(ctx, p, s.Limit)
		}
		if err == nil {
			err = p.Wait()
		}
		if err != nil {
			return r, fmt.Errorf("prepare: %w", err)
		}
	}
	for _, beside := range program.Beside {
		p, err := proc.Start(ctx, beside.command())
		if err != nil {
			return r, err
		}
		defer func() { err = errors.Join(err, p.Stop(context.WithoutCancel(ctx), grace)) }()
	}
	command, out := program.command(), &output{}
	command.Stdout = out
	if s.Input != "" {
		input, err := os.Open(s.Input)
		if err != nil {
			return r, fmt.Errorf("open the input: %w", err)
		}
		defer input.Close()
		command.Stdin = input
	}
	r.Floor, r.Start = ownPeak()+floorReserve, time.Now()
	p, err := proc.Start(ctx, command)
	if err != nil {
		return r, err
	}
	late := await(ctx, p, s.Limit)
	if ctx.Err() != nil {
		return r, context.Cause(ctx)
	}
	u, _ := p.Usage()
	r.Wall, r.User, r.System, r.Peak, r.Exit, r.Output = int64(u.Wall), int64(u.User), int64(u.System), u.Peak, u.Exit, out.bytes
	if r.Benchmarks, _ = Benchmarks(out.begin); r.Exit != 0 { // other lines may begin as theirs
		if r.Last = p.Tail(keptLines); len(r.Last) == 0 {
			r.Last = proc.LastLines(out.end, keptLines)
		}
		for i, text := range r.Last {
			r.Last[i] = printable.Clip(text, keptText)
		}
		if late != nil {
			r.Last = append(r.Last, late.Error())
		}
	}
	return r, nil
}

func (p Program) command() proc.Command {
	return proc.Command{Path: p.Command[0], Args: p.Command[1:], Env: p.Env, Dir: p.Dir, Tree: true}
}

// await waits for the end of a process, and kills it at a limit, or if ctx ends.
func await(ctx context.Context, p *proc.Process, limit time.Duration) (why error) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-p.Done():
		return nil
	case <-timer.C:
		why = fmt.Errorf("killed, because it did not end within %v", limit)
	case <-ctx.Done():
		why = context.Cause(ctx)
	}
	return errors.Join(why, p.Stop(ctx, 0))
}

// ownPeak is the peak of this program's memory, with which that of a child begins; 0 if it is unknown.
func ownPeak() int64 {
	self, err := procfs.Self()
	if err != nil {
		return 0
	}
	status, err := self.NewStatus()
	if err != nil {
		return 0
	}
	return int64(status.VmHWM)
}

// output counts bytes, and keeps the first and the last ones.
type output struct {
	bytes      int64
	begin, end []byte
}

func (o *output) Write(b []byte) (int, error) {
	o.bytes += int64(len(b))
	o.begin = append(o.begin, b[:min(len(b), benchmarkBytes-len(o.begin))]...)
	if o.end = append(o.end, b[max(0, len(b)-keptBytes):]...); len(o.end) > keptBytes {
		o.end = append(o.end[:0], o.end[len(o.end)-keptBytes:]...)
	}
	return len(b), nil
}

// line is a reading as another program writes it.
type line struct {
	Program int `json:"program"`
	Reading
}

// Serve executes the series that is on in, and writes a line for each execution.
func Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	var s Series
	if err := json.NewDecoder(in).Decode(&s); err != nil {
		return fmt.Errorf("read a series of executions: %w", err)
	}
	if len(s.Programs) == 0 || len(s.Rows) == 0 {
		return errors.New("a series of executions needs programs and rows")
	}
	lines := json.NewEncoder(out)
	return s.Run(ctx, func(program int, r Reading) error { return lines.Encode(line{program, r}) })
}

// By executes the series by an agent: a small program, since the peak of a child's memory begins with its parent's. It returns
// the readings of each program, and of the empty one.
func (s Series) By(ctx context.Context, agent, cpus string) ([][]Reading, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("write a series of executions: %w", err)
	}
	var out bytes.Buffer
	p, err := proc.Start(ctx, proc.Command{Path: agent, Args: []string{"execute"}, Stdin: bytes.NewReader(text), Stdout: &out, CPUs: cpus, Tree: true})
	if err != nil {
		return nil, err
	}
	select {
	case <-p.Done():
	case <-ctx.Done():
		return nil, errors.Join(context.Cause(ctx), p.Stop(context.WithoutCancel(ctx), grace))
	}
	_, _ = proc.Sweep() // the agent has recorded its processes, and what they left would disturb the next
	if err := p.Wait(); err != nil {
		if exit, ok := errors.AsType[*proc.ExitError](err); ok && len(exit.Log) > 0 { // its own message
			return nil, errors.New(strings.TrimPrefix(strings.Join(exit.Log, "\n"), "tare-agent: "))
		}
		return nil, err
	}
	all := make([][]Reading, len(s.Programs)+1)
	for lines := json.NewDecoder(&out); ; {
		var l line
		switch err := lines.Decode(&l); {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return nil, fmt.Errorf("read an execution: %w", err)
		}
		all[l.Program] = append(all[l.Program], l.Reading) // the agent has the same programs
	}
}

// machines are the architectures with an empty program: their number in ELF, and the machine code that ends a process with exit code 0.
var machines = map[string]struct {
	number elf.Machine
	end    []byte
}{
	"amd64": {elf.EM_X86_64, []byte{0xb8, 231, 0, 0, 0, 0x31, 0xff, 0x0f, 0x05}},                        // mov eax, exit_group; xor edi, edi; syscall
	"arm64": {elf.EM_AARCH64, []byte{0x00, 0x00, 0x80, 0xd2, 0xc8, 0x0b, 0x80, 0xd2, 0x01, 0, 0, 0xd4}}, // mov x0, 0; mov x8, exit_group; svc 0
}

// Static is a program of Linux that executes machine code and then ends with exit code 0. It has one page, no library and no
// dynamic loader. It is nil on an architecture without an empty program.
func Static(code []byte) []byte {
	const base, page = 0x400000, 0x10000
	machine, known := machines[runtime.GOARCH]
	if !known || runtime.GOOS != "linux" {
		return nil
	}
	header := elf.Header64{Ident: [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type: uint16(elf.ET_EXEC), Machine: uint16(machine.number), Version: uint32(elf.EV_CURRENT), Phnum: 1}
	segment := elf.Prog64{Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R | elf.PF_X), Vaddr: base, Paddr: base, Align: page}
	header.Ehsize, header.Phentsize = uint16(binary.Size(header)), uint16(binary.Size(segment))
	header.Phoff = uint64(header.Ehsize)
	begin := header.Phoff + uint64(header.Phentsize)
	header.Entry, segment.Filesz = base+begin, begin+uint64(len(code)+len(machine.end))
	segment.Memsz = segment.Filesz
	var b bytes.Buffer
	for _, part := range []any{header, segment, code, machine.end} {
		_ = binary.Write(&b, binary.LittleEndian, part) // a buffer has no errors
	}
	return b.Bytes()
}

// emptyProgram writes the empty program below a new directory. It is not ok where files cannot be executed.
func emptyProgram() (path string, remove func(), ok bool) {
	text := Static(nil)
	dir, err := os.MkdirTemp("", "tare-empty-")
	if err != nil {
		return "", func() {}, false
	}
	path, remove = filepath.Join(dir, "empty"), func() { _ = os.RemoveAll(dir) }
	return path, remove, text != nil && os.WriteFile(path, text, 0o700) == nil //nolint:gosec // it is executed
}

// Benchmarks returns the figures of Go benchmarks in an output, by name and unit: the means of a name that occurs several times. In
// an output of several packages a name begins with its package. It is nil without any. The error is of the first line that is cut off.
func Benchmarks(output []byte) (all map[string]map[string]float64, damaged *benchfmt.SyntaxError) {
	if !bytes.HasPrefix(output, []byte("Benchmark")) && !bytes.Contains(output, []byte("\nBenchmark")) {
		return nil, nil
	}
	type figure struct{ sum, n float64 }
	found, packages := map[[2]string]map[string]figure{}, map[string]bool{}
	for r := benchfmt.NewReader(bytes.NewReader(output), "output"); r.Scan(); {
		if err, ok := r.Result().(*benchfmt.SyntaxError); ok && damaged == nil {
			damaged = err
		}
		result, ok := r.Result().(*benchfmt.Result)
		if !ok {
			continue
		}
		name := [2]string{result.GetConfig("pkg"), result.Name.String()}
		if packages[name[0]] = true; found[name] == nil {
			found[name] = map[string]figure{}
		}
		for _, v := range result.Values {
			f := found[name][v.Unit]
			found[name][v.Unit] = figure{f.sum + v.Value, f.n + 1}
		}
	}
	for name, units := range found {
		if all == nil {
			all = map[string]map[string]float64{}
		}
		words := name[1:]
		if len(packages) > 1 {
			words = name[:]
		}
		figures := map[string]float64{}
		for unit, f := range units {
			figures[unit] = f.sum / f.n
		}
		all[strings.Map(inGates, strings.Trim(strings.Join(words, "/"), "/"))] = figures
	}
	return all, damaged
}

// inGates replaces the characters that no gate has in the name of a metric.
func inGates(r rune) rune {
	if strings.ContainsRune("_/.-", r) || unicode.IsLetter(r) || unicode.IsDigit(r) {
		return r
	}
	return '_'
}
