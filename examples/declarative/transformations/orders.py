"""Orders out of the log: exact, typed, and summed up; and what is missing of them."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from penstock.spark import register

spark = SparkSession.active()
register(spark)
log = {"path": spark.conf.get("spark.penstock.path"), "topic": "orders"}


@dp.table
def bronze() -> DataFrame:
    """The records as they are. A gap that opens between two runs fails the run, and says where."""
    return spark.readStream.format("penstock").options(**log).load()


@dp.materialized_view
def gaps() -> DataFrame:
    """What the log no longer has."""
    return spark.read.format("penstock").options(**log, rows="gaps").load()


@dp.table
def silver() -> DataFrame:
    """Typed; what is no order has no id."""
    order = f.from_json(f.col("data").cast("string"), "id BIGINT, customer STRING, total DOUBLE")
    rows = spark.readStream.table("bronze").select("topic", "epoch", "seq", order.alias("order"))
    return rows.select("topic", "epoch", "seq", "order.*").where("id IS NOT NULL")


@dp.materialized_view
def revenue() -> DataFrame:
    """What each customer has spent."""
    return spark.read.table("silver").groupBy("customer").agg(f.sum("total").alias("total"))
