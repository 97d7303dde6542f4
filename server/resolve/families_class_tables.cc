// Learned tables by class: transformers 5.24.0, from the constructors of its modules.
#include "server/resolve/class_tables.h"

namespace phasor::server {
namespace {

constexpr std::string_view kSquare =
    "row by row over the patches; other sizes: a square grid, resized bicubic (align_corners false)";
constexpr std::string_view kSquareAfterClass =
    "row 0 is the class token's, the others run row by row over the patches; other sizes: a square grid, resized bicubic "
    "(align_corners false)";
constexpr std::string_view kLeft = "read twice, by a box's left (x0) and right (x1) coordinate";
constexpr std::string_view kTop = "read twice, by a box's upper (y0) and lower (y1) coordinate";
constexpr std::string_view kHeight = "read by a box's height, y1 - y0";
constexpr std::string_view kWidth = "read by a box's width, x1 - x0";
constexpr std::string_view kQueries = "object query i reads row i; no positions of tokens";
constexpr std::string_view kBoxes = "max_2d_position_embeddings=1024";

// clang-format off
constexpr ClassTable kTables[] = {
// Images, sound and video at the input.
{.family = "audiospectrogramtransformer", .layer_type = "", .rows = "((num_mel_bins=128 - patch_size=16) / frequency_stride=10 + 1) * ((max_length=1024 - patch_size=16) / time_stride=10 + 1) + 2",
 .source = "embeddings.position_embeddings", .note = "rows 0 and 1 are the class and distillation tokens'; patches run over bands and, inside a band, over time: patch (f, t) of T times reads row 2 + f*T + t", .offset = 2},
{.family = "hiera", .layer_type = "", .rows = "(image_size.h=224 / patch_stride.0=4) * (image_size.w=224 / patch_stride.1=4)", .dim = "embed_dim=96", .source = "embeddings.position_embeddings", .note = kSquare},
{.family = "lwdetrvit", .layer_type = "", .rows = "(pretrain_image_size.h=224 / patch_size.h=16) * (pretrain_image_size.w=224 / patch_size.w=16) + 1", .source = "embeddings.position_embeddings",
 .note = "row 0, a class token's, is never read; the others run row by row over the patches and are resized to those of the image as a square grid, bicubic (align_corners false)", .offset = 1, .when = "?use_absolute_position_embeddings=1"},
{.family = "radio", .layer_type = "", .rows = "(max_img_size=2048 / patch_size=16) * (max_img_size=2048 / patch_size=16)", .source = "embeddings.position_embedding",
 .note = "a square grid, row by row: resized to the longer side of the patches in both directions, bilinear (align_corners false), then cut to the shorter; class and register tokens read none"},
{.family = "seggpt", .layer_type = "embedding", .rows = "(pretrain_image_size=224 / patch_size=16) * (pretrain_image_size=224 / patch_size=16) + 1", .source = "embeddings.position_embeddings",
 .note = "row 0, a class token's, is never read; the others run row by row over the patches and are resized to those of the image as a square grid, bicubic (align_corners false); image and prompt add the same rows", .offset = 1},
{.family = "sam3vitmodel", .layer_type = "embedding", .rows = "(pretrain_image_size.h=336 / patch_size.h=14) * (pretrain_image_size.w=336 / patch_size.w=14)", .source = "embeddings.position_embeddings",
 .note = "a square grid, repeated over the patches of a larger image, not resized: the patch in row y, column x reads row (y mod n)*n + x mod n"},
{.family = "gemma4vision", .layer_type = "x_embedding", .rows = "position_embedding_size=10240", .source = "patch_embedder.position_embedding_table[0]", .note = "read by a patch's column; the row of y_embedding is added"},
{.family = "gemma4vision", .layer_type = "y_embedding", .rows = "position_embedding_size=10240", .source = "patch_embedder.position_embedding_table[1]", .note = "read by a patch's row; the row of x_embedding is added"},
{.family = "gemma4unifiedvision", .layer_type = "x_embedding", .rows = "mm_posemb_size=1120", .dim = "mm_embed_dim=3840", .source = "pos_embedding[:, 0]", .note = "read by a patch's column; the row of y_embedding is added"},
{.family = "gemma4unifiedvision", .layer_type = "y_embedding", .rows = "mm_posemb_size=1120", .dim = "mm_embed_dim=3840", .source = "pos_embedding[:, 1]", .note = "read by a patch's row; the row of x_embedding is added"},
{.family = "inkling2vision", .layer_type = "embedding", .rows = "posemb_grid_size=32 * posemb_grid_size=32", .source = "embeddings.position_embedding.weight", .note = "a square grid, row by row, resized to the patches of each image, bilinear (align_corners false)"},
{.family = "inkling2vision", .layer_type = "class_embedding", .rows = "1", .source = "embeddings.cls_position_embedding [dim]", .note = "the class token's, before the patches of each image"},
{.family = "florencevision", .layer_type = "column_embedding", .rows = "max_position_embeddings=50", .dim = "embed_dim.3=1024 - embed_dim.3=1024 / 2", .source = "multi_modal_projector.image_position_embed.column_embeddings.weight",
 .note = "read by a cell's column: the first half of the width of what the projector adds to the feature map; row_embedding is the second"},
{.family = "florencevision", .layer_type = "row_embedding", .rows = "max_position_embeddings=50", .dim = "embed_dim.3=1024 / 2", .source = "multi_modal_projector.image_position_embed.row_embeddings.weight",
 .note = "read by a cell's row: the second half of the width of what the projector adds to the feature map; column_embedding is the first"},
{.family = "mlcd", .layer_type = "class_embedding", .rows = "1", .dim = "hidden_size=1664 / num_attention_heads=16 / 2", .source = "class_pos_emb", .note = "angles in radians by which the pairs of the class token turn, in the place of a position"},
{.family = "mlcdvisionmodel", .layer_type = "class_embedding", .rows = "1", .dim = "hidden_size=1664 / num_attention_heads=16 / 2", .source = "class_pos_emb", .note = "angles in radians by which the pairs of the class token turn, in the place of a position"},
{.family = "vivit", .layer_type = "", .rows = "(num_frames=32 / tubelet_size.0=2) * (image_size.h=224 / tubelet_size.1=16) * (image_size.w=224 / tubelet_size.2=16) + 1", .source = "embeddings.position_embeddings",
 .note = "row 0 is the class token's, the others run over times, rows and columns of the tubelets, columns fastest", .offset = 1},
{.family = "videoprismvisionmodel", .layer_type = "spatial_embedding", .rows = "(image_size.h=288 / tubelet_size.1=18) * (image_size.w=288 / tubelet_size.2=18)", .source = "spatial_embeddings.position_embeddings",
 .note = "added to every frame, row by row over the patches; other sizes: a square grid, resized bilinear with antialias (align_corners false)"},
{.family = "videoprismvisionmodel", .layer_type = "temporal_embedding", .rows = "num_frames=16", .source = "temporal_embeddings.position_embeddings",
 .note = "added before the temporal layers: every patch of frame t reads row t; other counts of frames: resized linearly with antialias (align_corners false)"},
{.family = "xclip", .layer_type = "mit_embedding", .rows = "^vision_config>num_frames=8", .dim = "^vision_config>mit_hidden_size=512", .source = "mit.position_embedding", .note = "frame t of a video reads row t"},
{.family = "yolos", .layer_type = "", .rows = "(image_size.h=512 / patch_size=16) * (image_size.w=864 / patch_size=16) + num_detection_tokens=100 + 1", .source = "embeddings.position_embeddings",
 .note = "row 0 is the class token's, then row by row over the patches, then the detection tokens'; the patches' rows are resized to those of the image, bicubic (align_corners false)", .offset = 1},
{.family = "yolos", .layer_type = "mid_embedding", .rows = "image_size.h=512 * image_size.w=864 / (patch_size=16 * patch_size=16) + num_detection_tokens=100 + 1", .source = "encoder.interpolation.mid_position_embeddings[i, 0] of layer i",
 .note = "added after every layer but the last, from a table of its own, in the order of the first", .offset = 1, .when = "?use_mid_position_embeddings=1", .layers = "num_hidden_layers=12 - 1"},
{.family = "vilt", .layer_type = "image_embedding", .rows = "(image_size=384 / patch_size=32) * (image_size=384 / patch_size=32) + 1", .source = "embeddings.position_embeddings",
 .note = "row 0 is the image's class token's; the others, a square grid, are resized to the patches that the mask shows, bilinear (align_corners true), and read by those patches that are kept", .offset = 1},
{.family = "layoutlmv3", .layer_type = "image_embedding", .rows = "(input_size=224 / patch_size=16) * (input_size=224 / patch_size=16) + 1", .source = "pos_embed", .note = kSquareAfterClass, .offset = 1, .when = "?visual_embed=1"},
{.family = "patchtst", .layer_type = "", .rows = "(context_length=32 - patch_length=1) / patch_stride=1 + 1 + ?use_cls_token=0", .source = "encoder.positional_encoder.position_enc",
 .note = "stored in the checkpoint: random rows, or sines and cosines side by side less their mean and divided by ten times their standard deviation (positional_encoding_type); with a class token, row 0 is its"},
// Boxes of a page, rows and columns, prompts.
{.family = "layoutlm", .layer_type = "x_embedding", .rows = kBoxes, .source = "embeddings.x_position_embeddings.weight", .note = kLeft},
{.family = "layoutlm", .layer_type = "y_embedding", .rows = kBoxes, .source = "embeddings.y_position_embeddings.weight", .note = kTop},
{.family = "layoutlm", .layer_type = "h_embedding", .rows = kBoxes, .source = "embeddings.h_position_embeddings.weight", .note = kHeight},
{.family = "layoutlm", .layer_type = "w_embedding", .rows = kBoxes, .source = "embeddings.w_position_embeddings.weight", .note = kWidth},
{.family = "layoutlmv2", .layer_type = "x_embedding", .rows = kBoxes, .dim = "coordinate_size=128", .source = "embeddings.x_position_embeddings.weight", .note = kLeft},
{.family = "layoutlmv2", .layer_type = "y_embedding", .rows = kBoxes, .dim = "coordinate_size=128", .source = "embeddings.y_position_embeddings.weight", .note = kTop},
{.family = "layoutlmv2", .layer_type = "h_embedding", .rows = kBoxes, .dim = "shape_size=128", .source = "embeddings.h_position_embeddings.weight", .note = kHeight},
{.family = "layoutlmv2", .layer_type = "w_embedding", .rows = kBoxes, .dim = "shape_size=128", .source = "embeddings.w_position_embeddings.weight", .note = kWidth},
{.family = "layoutxlm", .layer_type = "x_embedding", .rows = kBoxes, .dim = "coordinate_size=128", .source = "embeddings.x_position_embeddings.weight", .note = kLeft},
{.family = "layoutxlm", .layer_type = "y_embedding", .rows = kBoxes, .dim = "coordinate_size=128", .source = "embeddings.y_position_embeddings.weight", .note = kTop},
{.family = "layoutxlm", .layer_type = "h_embedding", .rows = kBoxes, .dim = "shape_size=128", .source = "embeddings.h_position_embeddings.weight", .note = kHeight},
{.family = "layoutxlm", .layer_type = "w_embedding", .rows = kBoxes, .dim = "shape_size=128", .source = "embeddings.w_position_embeddings.weight", .note = kWidth},
{.family = "layoutlmv3", .layer_type = "x_embedding", .rows = kBoxes, .dim = "coordinate_size=128", .source = "embeddings.x_position_embeddings.weight", .note = kLeft, .when = "?text_embed=1"},
{.family = "layoutlmv3", .layer_type = "y_embedding", .rows = kBoxes, .dim = "coordinate_size=128", .source = "embeddings.y_position_embeddings.weight", .note = kTop, .when = "?text_embed=1"},
{.family = "layoutlmv3", .layer_type = "h_embedding", .rows = kBoxes, .dim = "shape_size=128", .source = "embeddings.h_position_embeddings.weight", .note = "read by a box's height, y1 - y0, clipped to 0 ... 1023", .when = "?text_embed=1"},
{.family = "layoutlmv3", .layer_type = "w_embedding", .rows = kBoxes, .dim = "shape_size=128", .source = "embeddings.w_position_embeddings.weight", .note = "read by a box's width, x1 - x0, clipped to 0 ... 1023", .when = "?text_embed=1"},
{.family = "lilt", .layer_type = "x_embedding", .rows = kBoxes, .dim = "hidden_size=768 / 6", .source = "layout_embeddings.x_position_embeddings.weight", .note = kLeft},
{.family = "lilt", .layer_type = "y_embedding", .rows = kBoxes, .dim = "hidden_size=768 / 6", .source = "layout_embeddings.y_position_embeddings.weight", .note = kTop},
{.family = "lilt", .layer_type = "h_embedding", .rows = kBoxes, .dim = "hidden_size=768 / 6", .source = "layout_embeddings.h_position_embeddings.weight", .note = kHeight},
{.family = "lilt", .layer_type = "w_embedding", .rows = kBoxes, .dim = "hidden_size=768 / 6", .source = "layout_embeddings.w_position_embeddings.weight", .note = kWidth},
{.family = "lilt", .layer_type = "box_embedding", .rows = "max_position_embeddings=512", .dim = "hidden_size=768 / channel_shrink_ratio=4", .source = "layout_embeddings.box_position_embeddings.weight", .note = "of the layout's own stream, by the tokens' positions", .after_padding = true},
{.family = "udop", .layer_type = "x_embedding", .rows = kBoxes, .source = "encoder.cell_2d_embedding.x_position_embeddings.weight", .note = "read twice, by a box's left and right coordinate, 0 ... 1, times rows - 1, rounded down"},
{.family = "udop", .layer_type = "y_embedding", .rows = kBoxes, .source = "encoder.cell_2d_embedding.y_position_embeddings.weight", .note = "read twice, by a box's upper and lower coordinate, 0 ... 1, times rows - 1, rounded down"},
{.family = "tvp", .layer_type = "row_embedding", .rows = "max_grid_row_position_embeddings=100", .source = "visual_embeddings.row_position_embeddings.weight", .note = "read by a cell's row; the row of col_embedding is added. A larger grid is resized bicubic (align_corners false) where that is asked for"},
{.family = "tvp", .layer_type = "col_embedding", .rows = "max_grid_col_position_embeddings=100", .source = "visual_embeddings.col_position_embeddings.weight", .note = "read by a cell's column; the row of row_embedding is added. A larger grid is resized bicubic (align_corners false) where that is asked for"},
{.family = "visualbert", .layer_type = "visual_embedding", .rows = "max_position_embeddings=512", .source = "embeddings.visual_position_embeddings.weight",
 .note = "of the image's regions, which all read row 0; where regions are aligned with words, the mean of those words' rows of the text's table is added"},
{.family = "clvp", .layer_type = "text_embedding", .rows = "^decoder_config>max_text_tokens=404", .dim = "^decoder_config>hidden_size=1024", .source = "conditioning_encoder.text_position_embedding.weight", .note = "of the text that conditions the speech decoder; positions count the tokens that the mask shows, from 0"},
// Object queries.
{.family = "detr", .layer_type = "query_embedding", .rows = "num_queries=100", .dim = "d_model=256", .source = "query_position_embeddings.weight", .note = kQueries},
{.family = "conditionaldetr", .layer_type = "query_embedding", .rows = "num_queries=300", .dim = "d_model=256", .source = "query_position_embeddings.weight", .note = kQueries},
{.family = "tabletransformer", .layer_type = "query_embedding", .rows = "num_queries=100", .dim = "d_model=256", .source = "query_position_embeddings.weight", .note = kQueries},
{.family = "deformabledetr", .layer_type = "query_embedding", .rows = "num_queries=300", .dim = "d_model=256 * 2", .source = "query_position_embeddings.weight", .note = "object query i reads row i: its first half is the position, its second the query itself", .when = "1 - ?two_stage=0"},
{.family = "groundingdino", .layer_type = "query_embedding", .rows = "^num_queries=900", .dim = "^d_model=256", .source = "query_position_embeddings.weight", .note = kQueries, .when = "?^embedding_init_target=1 + 1 - ?^two_stage=1"},
{.family = "mmgroundingdino", .layer_type = "query_embedding", .rows = "^num_queries=900", .dim = "^d_model=256", .source = "query_position_embeddings.weight", .note = kQueries, .when = "?^embedding_init_target=1 + 1 - ?^two_stage=1"},
// Text.
{.family = "canine", .layer_type = "", .rows = "num_hash_buckets=16384", .source = "char_embeddings.char_position_embeddings.weight", .note = "as many rows as hash buckets, whatever max_position_embeddings says"},
{.family = "sam3litetexttextmodel", .layer_type = "", .rows = "max_position_embeddings=77", .source = "embeddings.position_embedding.position_embedding", .note = "other lengths: resized linearly to the length (align_corners false)"},
{.family = "reformer", .layer_type = "axis0_embedding", .rows = "axial_pos_shape.0=64", .dim = "axial_pos_embds_dim.0=64", .source = "embeddings.position_embeddings.weights.0", .note = "position m reads row m / axial_pos_shape[1], rounded down: the first channels; axis1_embedding has the others", .when = "?axial_pos_embds=1"},
{.family = "reformer", .layer_type = "axis1_embedding", .rows = "axial_pos_shape.1=64", .dim = "axial_pos_embds_dim.1=192", .source = "embeddings.position_embeddings.weights.1", .note = "position m reads row m mod axial_pos_shape[1]: the channels after those of axis0_embedding", .when = "?axial_pos_embds=1"},
{.family = "reformer", .layer_type = "", .rows = "max_position_embeddings=4096", .source = "embeddings.position_embeddings.embedding.weight", .when = "1 - ?axial_pos_embds=1"},
};
// clang-format on

}  // namespace

std::span<const ClassTable> ClassTables() { return kTables; }

}  // namespace phasor::server
