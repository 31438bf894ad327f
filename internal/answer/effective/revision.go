package effective

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

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
