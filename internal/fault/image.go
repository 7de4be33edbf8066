package fault

import (
	"cmp"
	"errors"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
)

// sector is what a disk writes whole.
const sector = 512

// Image makes, in the empty folder at dir, what a loss of power after the first
// at records of the journal leaves there. What was synced is there. Of each write
// and each name that was not, kept is the chance that it is there too, in no
// order; a write that is there may be torn at any sector.
func (j *Journal) Image(dir string, at int, kept float64, random *rand.Rand) error {
	j.mu.Lock()
	ops := j.ops[:at:at]
	j.mu.Unlock()
	d := disk{files: map[int]*content{}, names: map[string]int{}, pending: map[string][]op{}}
	for _, o := range ops {
		d.do(o)
	}
	d.lose(kept, random)
	return d.write(dir)
}

// disk is what a folder holds, durable and not.
type disk struct {
	files   map[int]*content
	names   map[string]int  // durable
	pending map[string][]op // by folder, names that are not
}

// content is the bytes of one file.
type content struct {
	durable []byte
	pending []op
}

func (d *disk) file(n int) *content {
	if d.files[n] == nil {
		d.files[n] = &content{}
	}
	return d.files[n]
}

func (d *disk) do(o op) {
	switch o.kind {
	case opWrite, opTruncate:
		f := d.file(o.file)
		f.pending = append(f.pending, o)
	case opSync:
		f := d.file(o.file)
		for _, o := range f.pending {
			f.apply(o)
		}
		f.pending = nil
	case opName, opUnname:
		in := path.Dir(o.name)
		d.pending[in] = append(d.pending[in], o)
	case opSyncDir:
		for _, o := range d.pending[o.name] {
			d.rename(o)
		}
		delete(d.pending, o.name)
	}
}

func (d *disk) rename(o op) {
	if o.kind == opName {
		d.names[o.name] = o.file
	} else {
		delete(d.names, o.name)
	}
}

func (c *content) apply(o op) {
	end := o.off + int64(len(o.data))
	if grow := end - int64(len(c.durable)); grow > 0 {
		c.durable = append(c.durable, make([]byte, grow)...)
	}
	if o.kind == opTruncate {
		c.durable = c.durable[:o.off]
		return
	}
	copy(c.durable[o.off:], o.data)
}

// lose decides what of the pending is there. The order in which files are looked
// at is fixed, so that the same chances come out the same.
func (d *disk) lose(kept float64, random *rand.Rand) {
	for _, n := range slices.Sorted(maps.Keys(d.files)) {
		f := d.files[n]
		for _, o := range f.pending {
			if random.Float64() >= kept {
				continue
			}
			if o.kind == opWrite && len(o.data) > sector && random.IntN(4) == 0 {
				o.data = o.data[:sector*(1+random.IntN((len(o.data)-1)/sector))]
			}
			f.apply(o)
		}
	}
	for _, in := range slices.Sorted(maps.Keys(d.pending)) {
		for _, o := range d.pending[in] {
			if random.Float64() < kept {
				d.rename(o)
			}
		}
	}
}

// write makes the files: those whose folders are there.
func (d *disk) write(dir string) error {
	names := slices.SortedFunc(maps.Keys(d.names), cmp.Compare[string])
	for _, name := range names {
		if in := path.Dir(name); in != "." {
			if _, err := os.Stat(filepath.Join(dir, in)); errors.Is(err, fs.ErrNotExist) {
				continue
			}
		}
		at := filepath.Join(dir, filepath.FromSlash(name))
		var err error
		if n := d.names[name]; n == 0 {
			err = os.Mkdir(at, 0o700)
		} else {
			err = os.WriteFile(at, d.file(n).durable, 0o600)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
