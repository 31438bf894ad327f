// Package effective reads the configuration that a trial really had from its provenance directory: the
// configuration dumps and command lines of proxies, the pods of a cluster. It compares the configurations
// of two treatments.
//
// Addresses, ports, times and identifiers differ from trial to trial. They are replaced by names. A
// value that still differs between two trials of one treatment is not part of its configuration.
package effective

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/tare-mesh/tare/internal/base/regular"
)

// Read reads the configuration of a trial from its provenance directory.
func Read(dir string) (Configuration, error) {
	var files []string
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if files = append(files, name); len(files) > maxFiles {
			return fmt.Errorf("%s has more than %d files", dir, maxFiles)
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the configuration of a trial: %w", err)
	}
	all, left := Configuration{}, maxAll
	revised := revisionOf(dir)
	for _, name := range files {
		if !configured(name, func(f string) bool { return slices.Contains(files, f) }) || revised.leaves(name) {
			continue
		}
		data, err := content(filepath.Join(dir, name))
		if err != nil {
			return nil, fmt.Errorf("read the configuration of a trial: %w", err)
		}
		if left -= len(data); left < 0 {
			return nil, fmt.Errorf("read the configuration of a trial: %s has more than %d bytes", dir, maxAll)
		}
		data = revised.plain(data)
		f := flattener{file: fileName(name), in: all, own: ownNames(dir), revised: revised.name != ""}
		if strings.HasSuffix(strings.TrimSuffix(name, compressed), dumpSuffix) {
			all[Place{f.file, dumpPath}] = present
		}
		if filepath.Base(name) == "commands.sh" {
			f.commands(string(data))
			continue
		}
		if err := f.documents(data, strings.HasSuffix(strings.TrimSuffix(name, compressed), ".json")); err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		if len(all) > maxValues {
			return nil, fmt.Errorf("read the configuration of a trial: %s has more than %d values", dir, maxValues)
		}
	}
	return all, nil
}

// Limits of the files that are read. A dump of a sidecar with a hundred upstreams has a few megabytes.
const (
	maxFile  = 64 << 20
	maxFiles = 2000
	maxDepth = 100
	maxValue = 200 // characters of a value that are kept
	// Of all files of a trial together.
	maxAll    = 256 << 20 // bytes, decompressed
	maxValues = 1_000_000
)

// compressed is the end of the name of a compressed file.
const compressed = ".gz"

// dumpSuffix is the end of the name of a proxy's configuration dump.
const dumpSuffix = "config_dump.json"

// Configuration has the values of a trial, by file and path in it.
type Configuration map[Place]string

// dumpPath is the path at which the file of a proxy is marked if its values come from a dump.
const dumpPath = "configuration dump"

// commandLine is the path of the command line of a proxy.
const commandLine = "command line"

// Place is where a value is: in a file of the provenance, at a path of keys.
type Place struct{ File, Path string }

// configured reports whether a file of the provenance is part of the configuration. has reports other files.
func configured(name string, has func(string) bool) bool {
	switch base := strings.TrimSuffix(filepath.Base(name), compressed); {
	case base == "commands.sh", strings.HasSuffix(base, dumpSuffix):
		return true
	case strings.HasSuffix(base, "-sidecar.yaml"), strings.HasSuffix(base, "-gateway.yaml"):
		return !has(strings.TrimSuffix(name, ".yaml") + "-" + dumpSuffix)
	case base == "pods.yaml", strings.HasPrefix(name, "mesh"+string(filepath.Separator)) && (strings.HasSuffix(base, ".yaml") || strings.HasSuffix(base, ".json")):
		return true
	}
	return false
}

// maxImages bounds the file of image digests.
const maxImages = 1 << 20

// Images are the image digests of a trial on a cluster, by image, from its provenance directory. Other trials have none.
func Images(dir string) (map[string]string, error) {
	data, err := regular.ReadFile(filepath.Join(dir, "images.yaml"), maxImages)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var all map[string]string
	if err == nil {
		err = yaml.Unmarshal(data, &all)
	}
	if err != nil {
		return nil, fmt.Errorf("read the image digests of a trial: %w", err)
	}
	return all, nil
}

// content returns the content of a file, decompressed if it ends in .gz.
func content(path string) ([]byte, error) {
	data, err := regular.ReadFile(path, maxFile)
	if err != nil || !strings.HasSuffix(path, compressed) {
		return data, err
	}
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if data, err = io.ReadAll(io.LimitReader(r, maxFile+1)); err == nil && len(data) > maxFile {
		err = fmt.Errorf("more than %d bytes", maxFile)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return data, nil
}

// fileName names a file without the parts that differ from trial to trial. The files of one proxy have one name.
func fileName(name string) string {
	name = strings.TrimSuffix(filepath.ToSlash(name), compressed)
	for _, end := range []string{"-" + dumpSuffix, "-server_info.json", ".yaml", "-sidecar", "-gateway"} {
		name = strings.TrimSuffix(name, end)
	}
	return generated.ReplaceAllString(namespaced.ReplaceAllString(name, ""), "")
}

// ownNames are texts of one trial, longest first: its directories, and its name.
func ownNames(dir string) *strings.Replacer {
	pairs := []string{}
	if abs, err := filepath.Abs(dir); err == nil {
		pairs = append(pairs, abs, "PROVENANCE")
	}
	return strings.NewReplacer(append(pairs, os.TempDir(), "TMP")...)
}

// flattener writes the values of one file into a configuration.
type flattener struct {
	file string
	in   Configuration
	own  *strings.Replacer
	// revised: the mesh is a revision. It uses the charts of the first revision, or fewer.
	revised bool
}

// documents flattens JSON, or a stream of YAML.
func (f flattener) documents(data []byte, isJSON bool) error {
	if isJSON {
		var v any
		d := json.NewDecoder(strings.NewReader(string(data)))
		d.UseNumber()
		if err := d.Decode(&v); err != nil {
			return err
		}
		f.value("", v, 0)
		return nil
	}
	d := yaml.NewDecoder(strings.NewReader(string(data)))
	for i := 0; ; i++ {
		var v any
		switch err := d.Decode(&v); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		of, at := f, f.document(v, i)
		if pod, is := strings.CutPrefix(at, "Pod "); is { // a change of all pods is one difference
			of.file, at = f.file+"/"+pod, ""
		}
		of.value(at, v, 0)
	}
}

// document names a document of a stream by its kind and the workload it belongs to.
func (f flattener) document(v any, i int) string {
	m, _ := v.(map[string]any)
	kind, _ := m["kind"].(string)
	if kind == "" {
		return ""
	}
	metadata, _ := m["metadata"].(map[string]any)
	labels, _ := metadata["labels"].(map[string]any)
	service, _ := labels["tare.dev/service"].(string)
	name, _ := metadata["name"].(string)
	return kind + " " + generated.ReplaceAllString(cmp.Or(service, name, strconv.Itoa(i)), "")
}

func (f flattener) value(path string, v any, depth int) {
	if depth > maxDepth || len(f.in) > maxValues {
		return
	}
	switch v := v.(type) {
	case map[string]any:
		for key, child := range v {
			if skipped(path, key) || f.file == installation && path == "" && f.leaves(key) {
				continue
			}
			f.value(join(path, key), child, depth+1)
		}
	case []any:
		seen := map[string]int{}
		for i, child := range v {
			if len(f.in) > maxValues {
				return
			}
			name := elementName(child, i)
			if seen[name]++; seen[name] > 1 {
				name += "#" + strconv.Itoa(seen[name])
			}
			f.value(path+"["+f.normal("", name)+"]", child, depth+1)
		}
	default:
		f.put(path, fmt.Sprint(v))
	}
}

// leaves reports whether a field of the mesh's record is left out.
func (f flattener) leaves(key string) bool {
	switch key {
	case "mesh", "from":
		return true
	case "charts", "shared":
		return f.revised
	}
	return false
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// elementName is the name of an element of a list, so that another order is not a difference.
// Without a name it is the index.
func elementName(v any, i int) string {
	m, _ := v.(map[string]any)
	for _, key := range []string{"name", "@type", "cluster", "resource"} {
		if name, ok := m[key].(string); ok && name != "" {
			if rest := listenerIP.ReplaceAllString(name, "IP_"); rest != name { // of a Service, with the address of this cluster
				return rest + " " + find(m, "stat_prefix", 0)
			}
			name = address.ReplaceAllString(name, "ADDRESS") // of a listener: public_listener:127.0.1.2:20000
			return name[strings.LastIndex(name, ".")+1:]
		}
	}
	if text, ok := only(v); ok {
		return text
	}
	for _, child := range m { // Envoy's dump has the name a level below
		inner, _ := child.(map[string]any)
		if name, ok := inner["name"].(string); ok && name != "" && len(m) <= 3 {
			return name
		}
	}
	return strconv.Itoa(i)
}

// find is the first text under a key, in the order of keys.
func find(v any, key string, depth int) string {
	if depth > maxDepth {
		return ""
	}
	switch v := v.(type) {
	case map[string]any:
		if text, is := v[key].(string); is {
			return text
		}
		for _, k := range slices.Sorted(maps.Keys(v)) {
			if text := find(v[k], key, depth+1); text != "" {
				return text
			}
		}
	case []any:
		for _, child := range v {
			if text := find(child, key, depth+1); text != "" {
				return text
			}
		}
	}
	return ""
}

// only is the text of an element that has no other value, such as {prefix: server}.
func only(v any) (string, bool) {
	for range maxDepth {
		m, is := v.(map[string]any)
		if !is || len(m) != 1 {
			break
		}
		for _, child := range m {
			v = child
		}
	}
	text, is := v.(string)
	return text, is && text != "" && len(text) <= maxValue
}

// commands flattens commands.sh: the words of the command of each task.
func (f flattener) commands(text string) {
	task, digests := "", map[string]string{}
	for line := range strings.SplitSeq(text, "\n") {
		if rest, ok := strings.CutPrefix(line, "# sha256:"); ok {
			digest, word, _ := strings.Cut(rest, " ")
			digests[word] = "sha256:" + digest
			continue
		}
		if name, ok := strings.CutPrefix(line, "# "); ok {
			task, _, _ = strings.Cut(name, ",")
			digests = map[string]string{}
			continue
		}
		if line == "" || !strings.Contains(task, "/") || strings.HasSuffix(task, "/load") {
			continue
		}
		f.file = strings.TrimSuffix(task, "/sidecar")
		f.put(commandLine, withoutPorts(withDigests(line, digests)))
	}
}

func (f flattener) put(path, text string) {
	key := path[strings.LastIndexAny(path, ".[")+1:]
	if key == "pod" || strings.HasSuffix(path, "metadata.name") {
		text = generated.ReplaceAllString(text, "")
	}
	f.in[Place{f.file, path}] = f.normal(key, text)
}

// withDigests replaces the files that a command line names by their digests: a build is the same under another path.
func withDigests(line string, digests map[string]string) string {
	words := strings.Split(line, " ")
	for i, word := range words {
		if digest, ok := digests[word]; ok {
			words[i] = digest
		}
	}
	return strings.Join(words, " ")
}

// portVariable is a variable with a port that tare chose for a program of the user.
var portVariable = regexp.MustCompile(`\b(?:[A-Z0-9_]+_)?PORT=([0-9]+)\b`)

// withoutPorts replaces the ports in a command line that its variables name.
func withoutPorts(line string) string {
	for _, found := range portVariable.FindAllStringSubmatch(line, -1) {
		line = regexp.MustCompile(`\b`+found[1]+`\b`).ReplaceAllString(line, "PORT")
	}
	return line
}

// skippedKeys hold times, identifiers and states, or a copy of what the dump has elsewhere. So does node of server_info.json.
var skippedKeys = []string{
	"last_updated", "version_info", "client_status", "status", "uid", "resourceVersion", "creationTimestamp", "managedFields", "generateName",
	"ownerReferences", "nodeName", "generation", "extensions", "pod-template-hash", "user_agent_build_version", "static_route_configs",
	"uptime_current_epoch", "uptime_all_epochs", "state", "run", "owner", "networks", "tare.dev/run", "tare.dev/trial", "tare.dev/owner",
}

func skipped(path, key string) bool {
	return path == "" && key == "node" || slices.Contains(skippedKeys, key) || strings.HasSuffix(path, "bootstrap") && key == "static_resources"
}

// installation is the record of an installed mesh, with the names of variants.
const installation = "mesh/installation.json"

var (
	listenerIP = regexp.MustCompile(`^(\d{1,3}\.){3}\d{1,3}_`)
	address    = regexp.MustCompile(`\b(\d{1,3}\.){3}\d{1,3}:\d{2,5}\b`)
	namespaced = regexp.MustCompile(`\btare-[a-z0-9-]+?-[0-9a-f]{8}-\d+-`)         // of files of proxies, before the pod
	generated  = regexp.MustCompile(`-[0-9a-f]{8,10}-[0-9a-z]{5}\b|-[0-9a-z]{5}$`) // of pods of a ReplicaSet, and of token volumes
	normals    = []struct {
		form *regexp.Regexp
		to   string
	}{
		{regexp.MustCompile(`\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[0-9.:Z+-]*`), "TIME"},
		{regexp.MustCompile(`\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b`), "UUID"},
		{address, "ADDRESS"},
		{regexp.MustCompile(`\b(\d{1,3}\.){3}\d{1,3}_(\d+)\b`), "IP_$2"},
		{regexp.MustCompile(`\b(\d{1,3}\.){3}\d{1,3}\b`), "IP"},
		{regexp.MustCompile(`\btare-[a-z0-9-]+-[0-9a-f]{8}-\d+\b`), "NAMESPACE"},
		{regexp.MustCompile(`\b[0-9a-f]{16,}\b`), "DIGEST"},
		{regexp.MustCompile(`[A-Za-z0-9+/]{120,}={0,2}`), "BYTES"},
		{regexp.MustCompile(`TMP/[^ "']*`), "RUNTIME-FILE"},
		{regexp.MustCompile(`\b(load-\d+)-[0-9a-z]{5}\b`), "$1"},
		{regexp.MustCompile(`kube-api-access-[0-9a-z]{5}`), "kube-api-access"},
		{regexp.MustCompile(`-[0-9a-f]{8,10}-[0-9a-z]{5}\b`), ""},
	}
)

// normal replaces what differs from trial to trial.
func (f flattener) normal(key, text string) string {
	if strings.HasSuffix(key, "port_value") {
		return "PORT"
	}
	text = f.own.Replace(text)
	for _, n := range normals {
		text = n.form.ReplaceAllString(text, n.to)
	}
	if r := []rune(text); len(r) > maxValue && key != commandLine {
		text = string(r[:maxValue]) + "…"
	}
	return text
}

// revision has the names of a mesh's revision, in which two variants side by side differ without any other setting.
type revision struct {
	name, home string   // home is the namespace of the mesh without revisions (both empty: it is none)
	shared     []string // files of charts that only the first revision installed

	ends, alone *regexp.Regexp
}

// revisionOf reads the record of the mesh. Its namespace ends with the name of the revision.
func revisionOf(dir string) (r revision) {
	data, err := content(filepath.Join(dir, installation))
	if err != nil {
		return r
	}
	var record struct {
		Mesh, Namespace string
		Shared          []string
	}
	if json.Unmarshal(data, &record) != nil || record.Mesh == "" {
		return r
	}
	name := strings.ReplaceAll(record.Mesh, ".", "-")
	home, is := strings.CutSuffix(record.Namespace, "-"+name)
	if !is {
		return r
	}
	r.name, r.home = name, home
	for _, release := range record.Shared {
		r.shared = append(r.shared, filepath.Join("mesh", "chart-"+release+".yaml"))
	}
	quoted := regexp.QuoteMeta(name)
	r.ends, r.alone = regexp.MustCompile(`-`+quoted+`(-[0-9a-f]{8,10}-[0-9a-z]{5}|[^a-z0-9-]|$)`), regexp.MustCompile(`(["'\s])`+quoted+`("\s*:|["'\s]|$)`)
	return r
}

// leaves reports whether a file is left out: other revisions use the chart too.
func (r revision) leaves(file string) bool {
	return slices.Contains(r.shared, strings.TrimSuffix(file, compressed))
}

// plain is a file without the names of the revision.
func (r revision) plain(data []byte) []byte {
	if r.name == "" {
		return data
	}
	text := strings.NewReplacer(r.home+"-"+r.name, r.home).Replace(string(data))
	text = strings.ReplaceAll(text, "-"+r.name+"-"+r.home, "-"+r.home)
	text = r.ends.ReplaceAllString(text, "$1")
	return r.alone.ReplaceAllFunc([]byte(text), func(found []byte) []byte {
		if found[len(found)-1] == ':' { // a key of that name, such as "telemetry": it is not the name of the revision
			return found
		}
		return r.alone.ReplaceAll(found, []byte("${1}REVISION${2}"))
	})
}

// Compare lists what differs between the trials of two treatments: first what differs in the most files,
// then by path. known is false if either has no configuration.
func Compare(a, b []Configuration) (all []Difference, known bool) {
	x, noiseA, okA := commonValues(a)
	y, noiseB, okB := commonValues(b)
	if !okA || !okB {
		return nil, false
	}
	leaveOptions(x, y)
	for _, file := range Undumped(a, b) {
		for _, side := range []Configuration{x, y} {
			maps.DeleteFunc(side, func(p Place, _ string) bool { return p.File == file && p.Path != commandLine })
		}
	}
	type change struct{ path, a, b string }
	byChange := map[change]*Difference{}
	add := func(file string, c change) {
		d := byChange[c]
		if d == nil {
			d = &Difference{Path: c.path, A: c.a, B: c.b}
			byChange[c] = d
		}
		if d.Values++; !slices.Contains(d.Files, file) {
			d.Files = append(d.Files, file)
		}
	}
	inA, inB := parents(x), parents(y)
	for place, value := range x {
		other, has := y[place]
		switch {
		case noiseA[place] || noiseB[place] || has && other == value:
		case has && place.Path == commandLine:
			was, is := words(value, other)
			add(place.File, change{place.Path, was, is})
		case has:
			add(place.File, change{place.Path, value, other})
		default:
			path, value := part(place, value, inB)
			add(place.File, change{path: path, a: value})
		}
	}
	for place, value := range y {
		if _, has := x[place]; has || noiseA[place] || noiseB[place] {
			continue
		}
		path, value := part(place, value, inA)
		add(place.File, change{path: path, b: value})
	}
	for _, d := range byChange {
		slices.Sort(d.Files)
		d.Values /= len(d.Files)
		all = append(all, *d)
	}
	slices.SortFunc(all, func(p, q Difference) int {
		if len(p.Files) != len(q.Files) {
			return len(q.Files) - len(p.Files)
		}
		return strings.Compare(p.Path+p.A+p.B, q.Path+q.A+q.B)
	})
	return all, true
}

// Difference is one value, or a whole part, that two configurations have differently.
type Difference struct {
	// Files are the proxies or pods that differ in this way.
	Files []string `json:"files"`
	Path  string   `json:"path"`
	// A and B are the values. Empty means absent. Of a part, the number of its values is in Values.
	A      string `json:"a,omitempty"`
	B      string `json:"b,omitempty"`
	Values int    `json:"values"`
}

// commonValues keeps the values that all trials of a treatment have. ok is false where there is nothing.
func commonValues(trials []Configuration) (c Configuration, unstable map[Place]bool, ok bool) {
	c, unstable = Configuration{}, map[Place]bool{}
	for _, t := range trials {
		for place, value := range t {
			if first, has := c[place]; has && first != value {
				unstable[place] = true
			} else if !has {
				c[place] = value
			}
		}
	}
	for place := range c {
		for _, t := range trials {
			if _, has := t[place]; !has {
				unstable[place] = true
			}
		}
	}
	return c, unstable, len(c) > 0
}

// Undumped are the proxies with a configuration dump in some of the trials, but not in all. Compare leaves their values
// out: a dump has more than the file that a proxy starts with.
func Undumped(a, b []Configuration) (files []string) {
	trials, dumps := map[string]int{}, map[string]int{}
	for _, t := range slices.Concat(a, b) {
		seen := map[string]bool{}
		for place := range t {
			if !seen[place.File] {
				seen[place.File] = true
				trials[place.File]++
			}
			if place.Path == dumpPath {
				dumps[place.File]++
			}
		}
	}
	for file, n := range dumps {
		if n < trials[file] {
			files = append(files, file)
		}
	}
	slices.Sort(files)
	return files
}

// leaveOptions leaves the options of the mesh out if proxies' dumps of both sides have their effect: they are
// a request, which may have no effect. A side without options needs no dumps.
func leaveOptions(sides ...Configuration) {
	known := true
	for _, c := range sides {
		places := slices.Collect(maps.Keys(c))
		has := slices.ContainsFunc(places, func(p Place) bool { return p.Path == dumpPath })
		known = known && (has || !slices.ContainsFunc(places, option))
		maps.DeleteFunc(c, func(p Place, _ string) bool { return p.Path == dumpPath })
	}
	for _, c := range sides {
		maps.DeleteFunc(c, func(p Place, _ string) bool { return known && option(p) })
	}
}

// option reports whether a place is of an option of the mesh.
func option(p Place) bool { return p.File == installation && strings.HasPrefix(p.Path, "options.") }

// present is the value of a part that only one configuration has.
const present = "present"

// part is the largest part around a place that the other configuration lacks, and present; or the place and its value.
func part(p Place, value string, other map[Place]bool) (path, shown string) {
	for _, end := range ends(p.Path) {
		if upper := p.Path[:end]; !other[Place{p.File, upper}] {
			if end < len(p.Path) {
				return upper, present
			}
			return upper, value
		}
	}
	return p.Path, value
}

// parents are all places of a configuration and all parts that contain one.
func parents(c Configuration) map[Place]bool {
	all := map[Place]bool{}
	for place := range c {
		all[place] = true
		for _, end := range ends(place.Path) {
			all[Place{place.File, place.Path[:end]}] = true
		}
	}
	return all
}

// ends are the ends of the parts of a path: of each key, list and element. Names of elements have dots and brackets too.
func ends(path string) (all []int) {
	depth := 0
	for i, r := range path {
		switch r {
		case '[':
			if depth++; depth == 1 && i > 0 {
				all = append(all, i)
			}
		case ']':
			if depth = max(0, depth-1); depth == 0 {
				all = append(all, i+1)
			}
		case '.':
			if depth == 0 && i > 0 {
				all = append(all, i)
			}
		}
	}
	return all
}

// words are the parts in which two command lines differ.
func words(a, b string) (was, is string) {
	x, y := strings.Fields(a), strings.Fields(b)
	flag := ""
	for len(x) > 0 && len(y) > 0 && x[0] == y[0] {
		if flag = ""; strings.HasPrefix(x[0], "-") {
			flag = x[0] + " " // the words may be its value
		}
		x, y = x[1:], y[1:]
	}
	for len(x) > 0 && len(y) > 0 && x[len(x)-1] == y[len(y)-1] {
		x, y = x[:len(x)-1], y[:len(y)-1]
	}
	if len(x) > 0 && len(y) > 0 {
		return flag + strings.Join(x, " "), flag + strings.Join(y, " ")
	}
	return strings.Join(x, " "), strings.Join(y, " ")
}
