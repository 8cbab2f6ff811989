# What TensorBoard's own reader finds in a folder of event files, as JSON; run by event_file_test.cpp.
import json
import sys

from tensorboard.backend.event_processing import event_accumulator

events = event_accumulator.EventAccumulator(sys.argv[1],
    size_guidance={event_accumulator.TENSORS: 0, event_accumulator.SCALARS: 0, event_accumulator.IMAGES: 0,
    event_accumulator.HISTOGRAMS: 0})
events.Reload()
found = {"scalars": {}, "histograms": {}, "texts": {}, "images": {}, "graph": []}
for tag in events.Tags()["scalars"]:
    found["scalars"][tag] = [[e.step, e.value] for e in events.Scalars(tag)]
for tag in events.Tags()["histograms"]:
    found["histograms"][tag] = [[e.step, h.min, h.max, h.num, h.sum, h.sum_squares, list(h.bucket_limit), list(h.bucket)]
                                for e in events.Histograms(tag) for h in [e.histogram_value]]
for tag in events.Tags()["images"]:
    found["images"][tag] = [[e.step, e.height, e.width, e.encoded_image_string.hex()] for e in events.Images(tag)]
for tag in events.Tags()["tensors"]:
    plugin = events.SummaryMetadata(tag).plugin_data.plugin_name
    found["texts"][tag] = [[e.step, plugin, [s.decode() for s in e.tensor_proto.string_val]] for e in events.Tensors(tag)]
if events.Tags()["graph"]:
    found["graph"] = [[n.name, n.op, list(n.input), [d.size for d in n.attr["_output_shapes"].list.shape[0].dim]] for n in events.Graph().node]
json.dump(found, sys.stdout)
